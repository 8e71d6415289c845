package javascript

import (
	"encoding/json"
	"errors"

	"github.com/agent-runner/agent-runner/internal/sandbox/child"
)

// JobName is the name of the bundling job for sandbox.RunJob.
const JobName = "bundle"

// Job returns the job that bundles a script in a child process. Its input is the JSON of a
// [Source], and its output is decoded by [JobResult].
func Job() child.Handler {
	return child.Handler{Name: JobName, Do: func(input []byte) ([]byte, error) {
		var s Source
		if err := json.Unmarshal(input, &s); err != nil {
			return nil, err
		}
		var out jobOutput
		bundle, err := Build(s)
		var mistake *ScriptError
		switch {
		case errors.As(err, &mistake):
			out.Mistake = mistake.Text // the text may be longer than the maximum for a child's error
		case err != nil:
			return nil, err
		default:
			out.Bundle = bundle
		}
		return json.Marshal(out)
	}}
}

type jobOutput struct {
	Bundle  *Bundle `json:"bundle,omitempty"`
	Mistake string  `json:"mistake,omitempty"`
}

// JobResult decodes the output of the job. It returns a [*ScriptError] for a mistake in the script,
// and another error if the output is malformed.
func JobResult(output []byte) (*Bundle, error) {
	var out jobOutput
	switch err := json.Unmarshal(output, &out); {
	case err != nil:
		return nil, err
	case out.Mistake != "":
		return nil, &ScriptError{out.Mistake}
	case out.Bundle == nil || !IsBundle(out.Bundle.Code):
		return nil, errors.New("the child returned no bundle")
	}
	return out.Bundle, nil
}
