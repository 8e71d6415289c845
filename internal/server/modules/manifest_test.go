package modules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// FuzzUpload checks that an arbitrary upload is rejected as invalid, or contains a module no
// larger than the upload.
func FuzzUpload(f *testing.F) {
	for _, s := range []string{"\x00asm\x01\x00\x00\x00", `{"wasm":[{"data":"AGFzbQ=="}]}`, `{"wasm":[{"data":"AGFzbQ==","hash":"00"}],"config":{"a":"b"},"memory":{"max_pages":4}}`,
		`{"wasm":[{"url":"http://169.254.169.254/"}]}`, `{"wasm":[{"path":"/etc/passwd"}]}`, `{"wasm":[]}`, "export default 1", "", " {", strings.Repeat(`{"wasm":[`, 100)} {
		f.Add([]byte(s), "")
		f.Add([]byte(s), "application/typescript; x=y")
	}
	f.Fuzz(func(t *testing.T, content []byte, kind string) {
		name, module, _, err := detect(content, kind)
		if err != nil {
			require.Equal(t, 422, httpapi.ProblemOf(err).Status)
			return
		}
		require.NotEmpty(t, name)
		require.LessOrEqual(t, len(module), len(content), "a module is at most as large as its manifest")
	})
}
