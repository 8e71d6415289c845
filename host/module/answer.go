package module

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// An answerError is the cause of a fault: what the guest wrote is not what a
// hook answers.
type answerError struct{ text string }

func (e *answerError) Error() string { return e.text }

// answer reads the output of a hook that succeeded. None leaves out as it is.
func (v *visit) answer(out any) error {
	if len(v.output) == 0 {
		return nil
	}
	unknown, err := abi.Decode(v.output, out)
	if err != nil {
		return &answerError{"answer: " + err.Error()}
	}
	v.tellUnknown("answer", unknown)
	return nil
}

// maxMessage bounds the message of an error of a module, in bytes.
const maxMessage = 8 << 10

// failure reads the output of a hook that says it failed. Without output the
// error says no more than that; an output that is no error object is a fault,
// like any other answer of the wrong shape.
func (v *visit) failure() (*abi.Error, error) {
	if len(v.output) == 0 {
		return &abi.Error{Code: abi.CodeInternal, Message: fmt.Sprintf("%s failed without saying why", v.hook)}, nil
	}
	var e abi.Error
	unknown, err := abi.Decode(v.output, &e)
	if err != nil {
		return nil, &answerError{"returned 1, and its error object: " + err.Error()}
	}
	v.tellUnknown("error", unknown)
	if !slices.Contains(abi.Codes(), e.Code) {
		if e.Code != "" {
			v.log(abi.LogWarn, fmt.Sprintf("error: unknown code %q counts as internal", short(string(e.Code))))
		}
		e.Code = abi.CodeInternal
	}
	if len(e.Message) > maxMessage {
		e.Message = strings.ToValidUTF8(e.Message[:maxMessage], "") + "…"
	}
	return &e, nil
}
