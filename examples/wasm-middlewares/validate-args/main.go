// Command validate-args is a middleware that checks the arguments of a tool call against
// the tool's JSON Schema before the call, and reports mistakes to the model.
package main

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/values"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() { middleware.Serve(newValidate().declare()) }

func main() {}

func newValidate() *validate { return &validate{maxErrors: 10} }

type validate struct {
	except         []string
	closed, strict bool
	maxErrors      int
}

// declare returns a declaration of the module's hooks and configuration, so that the SDK needs no
// reflection, which would add a third to the module's size.
func (v *validate) declare() *middleware.Declaration {
	d := middleware.Declare(middleware.Options{
		Name:        "validate-args",
		Version:     "1.0.0",
		Description: "Refuses tool calls whose arguments do not fit the tool's JSON Schema.",
	})
	d.Strings(&v.except, "except", "names of tools whose arguments are not checked; * matches any characters")
	d.Bool(&v.closed, "closed", "reject properties that the schema does not name, unless it allows them")
	d.Bool(
		&v.strict,
		"strict",
		"reject calls of tools whose schema cannot be applied completely; without it, the rest is applied, with a line in the log",
	)
	d.Int(&v.maxErrors, "max_errors", "the maximum number of mistakes reported to the model at once, 1 to 100")
	d.Configure(v)
	d.GateTool(v)
	return d
}

// Configure validates the configuration.
func (v *validate) Configure(*middleware.Context) error {
	if v.maxErrors < 1 || v.maxErrors > 100 {
		return &abi.Error{
			Code:    abi.CodeInvalid,
			Message: middleware.Sprintf("config: max_errors: %d is not 1 to 100", v.maxErrors),
		}
	}
	return nil
}

// GateTool denies a call if the exact arguments that the tool would receive do not fit the tool's
// schema or cannot be checked. It allows calls of tools without a schema and of the tools in
// except. A schema that cannot be applied completely denies the call only if strict is set.
func (v *validate) GateTool(ctx *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	if names.Match(v.except, call.Name) || len(call.Tool.Parameters) == 0 || string(call.Tool.Parameters) == "null" {
		return middleware.Allow(), nil
	}
	arguments := call.Arguments
	if arguments == "" {
		arguments = "{}"
	}
	value, err := values.Read([]byte(arguments))
	if err != nil {
		return middleware.Deny(middleware.Sprintf("The arguments of %s cannot be read: %v", call.Name, err)), nil
	}
	c := v.check(call.Tool.Parameters, value)
	switch {
	case len(c.mistakes) > 0:
		return middleware.Deny(v.report(call.Name, c.mistakes)), nil
	case c.over != "":
		// Deny even without strict: otherwise large arguments would pass any schema.
		return middleware.Deny(middleware.Sprintf("The arguments of %s cannot be checked: %s.", call.Name, c.over)), nil
	case c.wrong != nil && v.strict:
		return middleware.Deny(middleware.Sprintf("The arguments of %s cannot be checked: %v", call.Name, c.wrong)), nil
	case c.wrong != nil:
		ctx.Warnf("not all of the schema of %s can be applied: %v", call.Name, c.wrong)
	}
	return middleware.Allow(), nil
}

func (v *validate) report(tool string, mistakes []mistake) string {
	var b strings.Builder
	b.WriteString("The arguments of " + tool + " do not fit:")
	for i, m := range mistakes {
		if i == v.maxErrors {
			b.WriteString("\n- and more")
			break
		}
		b.WriteString("\n- " + m.String())
	}
	b.WriteString("\nThe call was not made. Correct the arguments and call it again.")
	return b.String()
}

// check compares a value with a schema and returns the checker, which holds the mistakes.
func (v *validate) check(schema abi.JSON, value any) *checker {
	c := &checker{closed: v.closed, limit: v.maxErrors + 1, left: maxSteps}
	root, err := values.Read(schema)
	if err != nil {
		c.schema("the schema is no JSON: %w", err)
		return c
	}
	c.root = root
	c.check(root, value, place{})
	return c
}
