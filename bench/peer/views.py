"""ModelSerializer, rows one by one in a transaction. It counts no calls: the product does."""

from typing import Any

from django.db import transaction
from rest_framework import serializers
from rest_framework.generics import CreateAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from .models import Event, IdempotencyKey, Order, Payment


class PaymentSerializer(serializers.ModelSerializer):
    customerId = serializers.CharField(source="customer_ref", max_length=64)
    paymentToken = serializers.CharField(source="payment_token", max_length=128)
    idempotencyKey = serializers.CharField(source="idempotency_key", max_length=255)
    orderNo = serializers.CharField(source="order.order_no", max_length=64)

    class Meta:
        model = Payment
        fields = [
            *("id", "customerId", "amount", "currency", "paymentToken", "idempotencyKey", "orderNo"),
            *("state", "created_at"),
        ]
        read_only_fields = ["id", "state", "created_at"]

    @transaction.atomic
    def create(self, validated_data: dict[str, Any]) -> Payment:
        request = self.context["request"]
        order = Order.objects.create(
            client=request.auth,
            order_no=validated_data.pop("order")["order_no"],
            customer_ref=validated_data["customer_ref"],
            payable=validated_data["amount"],
            currency=validated_data["currency"],
        )
        payment = Payment.objects.create(order=order, **validated_data)
        IdempotencyKey.objects.create(
            client=request.auth, key=payment.idempotency_key, request=request.data, payment=payment
        )
        Event.objects.create(type="payment.accepted", payment=payment)
        return payment


class PaymentsView(CreateAPIView):
    serializer_class = PaymentSerializer

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        serializer.save()
        return Response(serializer.data, status=202)
