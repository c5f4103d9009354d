"""What the main screen is made of, top to bottom: the bars and the input here, the two columns in folders of their own."""
