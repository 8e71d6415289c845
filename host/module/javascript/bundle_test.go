package javascript

import (
	"testing"
	"github.com/stretchr/testify/require"
)

func TestX(t *testing.T) {
	s, err := FindSource("/tmp/js/guard.ts")
	require.NoError(t, err)
	b, err := Build(s)
	require.NoError(t, err)
	t.Log(string(b.Code))
	m, err := ReadMap(b.Code)
	require.NoError(t, err)
	t.Log(m.Translate("at <script>:20:5"), m.Frame(Position{Line: 5, Column: 3}))
}
