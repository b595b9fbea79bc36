"""The service as a program: its settings, logs and health check, the app, and the server that it runs on."""
