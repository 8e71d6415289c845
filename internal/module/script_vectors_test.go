package module

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// vectorScript checks that its input is that of the vector, and returns the vector's answer.
const vectorScript = `
const want = $INPUT, answer = $ANSWER, failure = $ERROR;

function differ(a, b, path) {
  if (b !== null && typeof b === "object" && "list" in b) {
    return a.length === b.total && a.revision === b.revision ? undefined : path;
  }
  if (typeof a !== typeof b || a === null || b === null || typeof a !== "object") return a === b ? undefined : path;
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const at = differ(a[key], b[key], path + "." + key);
    if (at !== undefined) return at;
  }
}

export function $HOOK(input) {
  const at = differ(input, want, "input");
  if (at !== undefined) throw new TypeError(at + " is not what it should be");
  if (failure === undefined) return answer;
  const { message, ...more } = failure;
  throw new HookError(message, more);
}
`

// TestScriptVectors checks that a script receives the input of each vector, and that the host
// receives the vector's answer or error from the script.
func TestScriptVectors(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/abi/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	l := newLoader(t)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var v vector
		_, err = abijson.Decode(b, &v)
		require.NoError(t, err, file)
		shape, ok := shapeOf(v.Hook)
		if !ok {
			continue // describe and configure have their own tests
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			scriptVector(t, l, &v, shape)
		})
	}
}

func scriptVector(t *testing.T, l *Loader, v *vector, shape [2]any) {
	t.Helper()
	literal := func(raw json.RawMessage) string {
		if raw == nil {
			return "undefined"
		}
		return string(raw)
	}
	text := strings.NewReplacer("$INPUT", literal(v.Input), "$ANSWER", literal(v.Answer), "$ERROR",
		literal(v.Error), "$HOOK", string(v.Hook)).
		Replace(vectorScript)
	s := &session{mw: configureSetter(t, loadScript(t, l, text, policy.Limits{})), entry: "guard", run: "run-7"}
	defer s.Close()
	in := reflect.New(reflect.TypeOf(shape[0])).Interface()
	_, err := abijson.Decode(v.Input, in)
	require.NoError(t, err)
	out := reflect.New(reflect.TypeOf(shape[1])).Interface()
	inv, err := s.invocation(&hook.Call{Hook: v.Hook}, in)
	require.NoError(t, err)
	inv.LogFunc = func(int32, string) {} // there is no run to log to
	err = s.serve(t.Context(), inv, out)
	var failed *abi.Error
	if v.Error != nil {
		require.True(t, errors.As(err, &failed), "%v", err)
		got, err := abijson.Marshal(failed)
		require.NoError(t, err)
		require.JSONEq(t, string(v.Error), string(got))
		return
	}
	require.NoError(t, err)
	if v.Answer != nil {
		got, err := abijson.Marshal(out)
		require.NoError(t, err)
		require.JSONEq(t, string(v.Answer), string(got))
	}
}
