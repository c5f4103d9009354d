"""Single requests from many clients on one model: messages or a text in, an answer out, with whatever is known of the text taken over."""
