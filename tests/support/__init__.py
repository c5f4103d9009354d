"""What tests share: a scripted engine, tiny models, real models opened for tests, drivers of the app and the command line."""
