"""What single commands compute and print: exports, traces, forecasts."""
