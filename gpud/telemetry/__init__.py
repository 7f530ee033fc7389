"""What leaves the daemon for Jaeger, Prometheus and Perfetto. Can stall or die without anybody noticing."""
