"""What ``bench.soak`` consists of."""
