"""What `relaylite doctor` looks at: the installation, the machine, folders, and the speed of a short chain."""
