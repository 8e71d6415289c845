package agentmodel

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// Parameters and other fields of requests that this package interprets.
const (
	paramFormat   = "response_format"
	paramChoice   = "tool_choice"
	paramParallel = "parallel_tool_calls"
	paramEffort   = "reasoning_effort"
	paramTier     = "service_tier"

	fieldMetadata     = "metadata"
	fieldOutputConfig = "output_config" // of the Messages API
)

// maxParams limits the fields of a request other than its messages and tools, in bytes. They
// include the schema of the answer and the metadata.
const maxParams = 256 << 10

// numbers, counts and texts list the parameters that must be numbers, positive integers and
// strings.
var (
	numbers = []string{"frequency_penalty", "min_p", "presence_penalty", "repetition_penalty", "temperature", "top_p"}
	counts  = []string{"max_completion_tokens", "max_tokens", "top_k"}
	texts   = []string{paramEffort, "verbosity"}
)

// usualTiers lists the values of service_tier that request no particular tier. They are not sent to
// the model.
var usualTiers = []string{"auto", "default", "standard_only"}

// maxStops limits the number of stop sequences in a request.
const maxStops = 16

// kindProblem returns the kind of value that a parameter must have, such as "a number", or "" if v
// is of that kind.
func kindProblem(name string, v rawjson.Value) string {
	number := strings.IndexByte("-0123456789", v.Text[0]) >= 0
	whole := number && !bytes.ContainsAny(v.Text, ".eE") && len(v.Text) < 20
	switch {
	case slices.Contains(numbers, name) && !number:
		return "a number"
	case slices.Contains(counts, name) && (!whole || v.Int() < 1):
		return "a whole number above 0"
	case name == "seed" && !whole:
		return "a whole number"
	case slices.Contains(texts, name) && !v.IsString():
		return "a string"
	case name == paramParallel && !v.IsTrue() && string(v.Text) != "false":
		return "true or false"
	case name == "stop" && !isStop(v):
		return fmt.Sprintf("a string, or at most %d of them", maxStops)
	}
	return ""
}

func isStop(v rawjson.Value) bool {
	list := v.Elements()
	return v.IsString() || v.IsArray() && len(list) <= maxStops &&
		!slices.ContainsFunc(list, func(e rawjson.Value) bool { return !e.IsString() })
}

// readParams reads the fields of a request that its codec returns as parameters. It checks the
// fields that do not reach the model, and adds the others to the request.
func (r *Request) readParams(params abi.Params) error {
	r.Params = abi.Params{}
	r.usage = !r.stream || !r.protocol.optionalUsage ||
		(rawjson.Value{Text: params["stream_options"]}).Get("include_usage").IsTrue()
	size := 0
	for name, value := range params {
		v := rawjson.Value{Text: value}
		if size += len(value); v.IsNull() {
			continue
		}
		if problem := kindProblem(name, v); problem != "" {
			return badf(name, "%s is %.80s; want %s", name, value, problem)
		}
		if check, ok := r.protocol.fixed[name]; ok {
			if problem := check(v); problem != "" {
				return badf(name, "%s is %.80s: %s", name, value, problem)
			}
			continue
		}
		switch name {
		case fieldMetadata:
			if err := r.readMetadata(v); err != nil {
				return err
			}
		case paramChoice:
			if v.String() != "auto" {
				r.Choice = value
			}
		case paramTier:
			if !slices.Contains(usualTiers, v.String()) {
				r.Params[name] = value
			}
		case paramParallel:
			if !v.IsTrue() {
				r.Params[name] = value
			}
		default:
			r.Params[name] = value
		}
	}
	if size > maxParams {
		return badf("", "the fields of the request apart from its messages and tools have %d bytes; at most %d are taken",
			size, maxParams)
	}
	return r.readFormat(rawjson.Value{Text: params[fieldOutputConfig]})
}

func (r *Request) readMetadata(v rawjson.Value) error {
	if !v.IsObject() {
		return badf(fieldMetadata, "metadata must be an object")
	}
	r.Metadata = abi.Params{}
	for _, m := range v.Members() {
		r.Metadata[m.Name] = m.Value.Text
	}
	return nil
}

// readFormat sets the format of the answer. It reads the parameter response_format or, in the
// Messages API, the member "format" of config, which is the request's output_config. The member
// "effort" of config becomes the parameter reasoning_effort.
func (r *Request) readFormat(config rawjson.Value) (err error) {
	if effort := config.Get("effort"); !effort.IsNull() {
		r.Params[paramEffort] = effort.Text
	}
	field, value := paramFormat, rawjson.Value{Text: r.Params[paramFormat]}
	schema := value.Get("json_schema").Get("schema")
	if f := config.Get("format"); !f.IsNull() {
		field, value, schema = fieldOutputConfig, f, f.Get("schema")
	}
	if value.IsNull() {
		return nil
	}
	switch kind := value.Get("type").String(); kind {
	case "text":
		delete(r.Params, paramFormat)
		return nil
	case "json_object":
		r.format = &format{}
		return nil
	case "json_schema":
		if r.format, err = newFormat(schema); err != nil {
			return badf(field, "the schema of %s %v", field, err)
		}
	default:
		return badf(field, "%s has the type %.60q; want text, json_object or json_schema", field, kind)
	}
	if field == fieldOutputConfig {
		r.Params[paramFormat] = asResponseFormat(schema)
	}
	return nil
}
