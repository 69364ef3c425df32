"""The OpenAI protocol: chat completions, text completions, models. One folder per endpoint;
what they share lies beside them."""
