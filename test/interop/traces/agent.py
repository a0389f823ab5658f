"""A Pydantic AI agent with a tool, traced by its own instrumentation and OpenTelemetry's exporter.

The model is Pydantic AI's own for tests: it calls each tool once and answers with the results.
"""

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
Agent.instrument_all()

agent = Agent(TestModel(), instructions="Be brief.")


@agent.tool_plain
def get_weather(city: str) -> str:
    """How it is outside."""
    return f"sunny in {city}"


try:
    print(agent.run_sync("How is it outside? (Pydantic AI)").output)
finally:
    provider.shutdown()
