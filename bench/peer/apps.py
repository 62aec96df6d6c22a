from django.apps import AppConfig


class PeerConfig(AppConfig):
    name = "bench.peer"
    label = "peer"
