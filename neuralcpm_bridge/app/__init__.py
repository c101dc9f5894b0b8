"""The application: command line, demo, report and bench; the only place that knows training and every host."""
