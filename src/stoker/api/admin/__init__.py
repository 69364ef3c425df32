"""The operator's routes: what is kept between requests, not what is answered."""
