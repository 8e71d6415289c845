package module

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// TestFaultsOfSDKs checks that the fault of a programming error in each language with an SDK names
// the error, its file and its line.
func TestFaultsOfSDKs(t *testing.T) {
	t.Parallel()
	for language, want := range map[string]string{
		// Rust 1.73 changed the order of the message and the position.
		"rust":           `before_agent: unreachable executed \(panicked at .*index out of bounds: the len is 1 but the index is 1.*src/lib.rs:13:|src/lib.rs:13:.*index out of bounds: the len is 1 but the index is 1`,
		"c":              `before_agent: unreachable executed \(faults.c:8: assertion failed: in->run.step == 0\)`,
		"assemblyscript": `before_agent: unreachable executed \(assembly/index.ts:11:.*: the run has begun\)`,
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			m, err := loadBytes(t, guestbuild.Foreign(t, "guest-sdk/"+language+"/testdata/faults"), policy.Limits{})
			require.NoError(t, err)
			_, err = open(t, configure(t, m, "")).beforeAgent(t)
			require.Error(t, err)
			require.Regexp(t, want, err.Error())
		})
	}
}
