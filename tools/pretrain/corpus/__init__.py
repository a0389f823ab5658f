"""The programs that write the synthetic part of the pretraining text. Each module owns one domain."""
