"""The same rows as the product's: client, order, payment, their history, key and event."""

import uuid

from django.contrib.auth.models import User
from django.db import models
from simple_history.models import HistoricalRecords


class Client(models.Model):
    user = models.OneToOneField(User, models.CASCADE)
    key_hash = models.CharField(max_length=64, unique=True)


class Order(models.Model):
    client = models.ForeignKey(Client, models.PROTECT)
    order_no = models.CharField(max_length=64, unique=True)
    customer_ref = models.CharField(max_length=64)
    payable = models.DecimalField(max_digits=18, decimal_places=2)
    currency = models.CharField(max_length=3)
    state = models.CharField(max_length=24, default="PAYING")
    created_at = models.DateTimeField(auto_now_add=True)
    history = HistoricalRecords()


class Payment(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    order = models.ForeignKey(Order, models.PROTECT)
    idempotency_key = models.CharField(max_length=255, unique=True)
    customer_ref = models.CharField(max_length=64)
    amount = models.DecimalField(max_digits=18, decimal_places=2)
    currency = models.CharField(max_length=3)
    payment_token = models.CharField(max_length=128)
    state = models.CharField(max_length=24, default="QUEUED")
    submit_due_at = models.DateTimeField(auto_now_add=True, db_index=True)
    created_at = models.DateTimeField(auto_now_add=True)
    history = HistoricalRecords()


class IdempotencyKey(models.Model):
    client = models.ForeignKey(Client, models.PROTECT)
    key = models.CharField(max_length=255)
    request = models.JSONField()
    payment = models.ForeignKey(Payment, models.PROTECT)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["client", "key"], name="peer_key_once")]


class Event(models.Model):
    type = models.CharField(max_length=40)
    payment = models.ForeignKey(Payment, models.PROTECT)
    due_at = models.DateTimeField(auto_now_add=True, db_index=True)
