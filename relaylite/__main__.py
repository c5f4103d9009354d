"""`python -m relaylite` is the command `relaylite`."""

from relaylite.cli import main

if __name__ == "__main__":
    main()
