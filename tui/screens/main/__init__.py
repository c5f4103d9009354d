"""The main screen. The door is `MainScreen`."""
