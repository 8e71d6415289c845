package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
)

// Spans returns a tracer that creates OpenTelemetry spans. Runs, model calls and tool calls have
// the names of the semantic conventions for generative AI: invoke_agent, chat and execute_tool. A
// request to a gateway is a span of kind server, also called chat. Each hook call has a span, which
// contains the spans of the calls that the hook wraps.
func Spans(t trace.Tracer) tracing.Tracer { return spans{t} }

type spans struct{ tracer trace.Tracer }

// Start implements [tracing.Tracer].
func (s spans) Start(ctx context.Context, op tracing.Operation) (context.Context, func(tracing.Outcome)) {
	name, kind, about := spanOf(op)
	ctx, span := s.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(about...))
	return ctx, func(o tracing.Outcome) {
		if span.IsRecording() {
			span.SetAttributes(endOf(op, o)...)
			if failed := errorType(op, o); failed != "" {
				span.SetAttributes(attribute.String("error.type", failed))
				span.SetStatus(codes.Error, failed)
			}
		}
		span.End()
	}
}

// spanOf returns the name, kind and initial attributes of an operation's span.
func spanOf(op tracing.Operation) (string, trace.SpanKind, []attribute.KeyValue) {
	about := []attribute.KeyValue{
		attribute.String("agent_runner.run.id", op.Run.ID),
		attribute.String("gen_ai.agent.name", op.Run.Agent),
	}
	if op.Run.Step > 0 {
		about = append(about, attribute.Int("agent_runner.step", op.Run.Step))
	}
	if c := op.Call; c != nil {
		about = append(about, attribute.String("gen_ai.tool.name", c.Name), attribute.String("gen_ai.tool.call.id", c.ID))
	}
	operation := func(name string) { about = append(about, attribute.String("gen_ai.operation.name", name)) }
	switch op.Kind {
	case tracing.OperationRun:
		operation("invoke_agent")
		return "invoke_agent " + op.Run.Agent, trace.SpanKindInternal, about
	case tracing.OperationModel:
		operation("chat")
		return "chat " + op.Model, trace.SpanKindClient, append(about, attribute.String("gen_ai.request.model", op.Model))
	case tracing.OperationRequest:
		operation("chat")
		return "chat " + op.Model, trace.SpanKindServer, append(about, attribute.String("gen_ai.request.model", op.Model))
	case tracing.OperationTool:
		operation("execute_tool")
		return "execute_tool " + op.Call.Name, trace.SpanKindInternal, about
	default:
		about = append(about, attribute.String("agent_runner.entry", op.Entry),
			attribute.String("agent_runner.hook", string(op.Hook)))
		if op.Digest != "" {
			about = append(about, attribute.String("agent_runner.module.digest", op.Digest))
		}
		return string(op.Hook) + " " + op.Entry, trace.SpanKindInternal, about
	}
}

// endOf returns the attributes that are known at the end of an operation.
func endOf(op tracing.Operation, o tracing.Outcome) []attribute.KeyValue {
	var about []attribute.KeyValue
	if u := o.Usage; u != nil {
		about = append(about, attribute.Int64("gen_ai.usage.input_tokens", u.PromptTokens),
			attribute.Int64("gen_ai.usage.output_tokens", u.CompletionTokens))
	}
	if o.FinishReason != "" {
		about = append(about, attribute.StringSlice("gen_ai.response.finish_reasons", []string{o.FinishReason}))
	}
	if op.Kind == tracing.OperationHook {
		about = append(
			about,
			attribute.Int64("agent_runner.fuel", o.Fuel),
			attribute.Int64("agent_runner.bytes_in", o.BytesIn),
			attribute.Int64("agent_runner.bytes_out", o.BytesOut),
			attribute.Int64("agent_runner.waited_us", o.Waited.Microseconds()),
		)
	}
	return about
}

// errorType returns the kind of an operation's failure, or "" if the operation succeeded. A call
// that ends the run counts as successful.
func errorType(op tracing.Operation, o tracing.Outcome) string {
	var failed *abi.Error
	switch {
	case o.Fault:
		return "fault"
	case o.Failed != nil:
		return string(o.Failed.Code)
	case o.IsError:
		return "tool_error"
	case o.Err == nil:
		return ""
	case op.Kind == tracing.OperationRun && o.FinishReason != "":
		return o.FinishReason
	case errors.As(o.Err, &failed):
		return string(failed.Code)
	case ending.Is(o.Err):
		return "" // ending the run is not a failure of this operation
	default:
		return "_OTHER"
	}
}
