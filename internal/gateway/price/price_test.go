package price

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/gateway/usage"
)

const some = `
currency: EUR
prices:
  - {model: big, input: 3, output: 15, cached_input: 0.3, cache_write: 3.75}
  - {model: "vendor/*", input: 1, output: 2}
  - {model: "*", input: 0, output: 0}
`

const liteLLM = `{
	"sample_spec": {"input_cost_per_token": 0, "output_cost_per_token": 0, "max_tokens": "set to max output tokens"},
	"small": {"input_cost_per_token": 1.5e-07, "output_cost_per_token": 6e-07, "cache_read_input_token_cost": 7.5e-08,
		"mode": "chat"},
	"picture": {"output_cost_per_image": 0.04}
}`

func TestTable(t *testing.T) {
	table, err := Parse([]byte(some))
	require.NoError(t, err)
	require.Equal(t, "EUR", table.Currency)
	tokens := &usage.Tokens{Input: 1000, CacheRead: 10_000, CacheWrite: 100, Output: 10}
	require.Equal(t, "0.0065", table.Find("big").Of(tokens).String())
	require.Equal(
		t,
		AmountOf((11_100+20)/1e6),
		table.Find("vendor/a/b").Of(tokens),
		"cached input costs as much as other input",
	)
	require.Zero(t, table.Find("other").Of(tokens))
	require.Equal(
		t,
		Amount(maxAmount),
		table.Find("big").Of(&usage.Tokens{Input: math.MaxInt64}),
		"sums must not overflow",
	)
	require.Nil(t, (*Table)(nil).Find("big"))

	table, err = Parse([]byte(liteLLM))
	require.NoError(t, err)
	require.Nil(t, table.Find("picture"))
	require.Nil(t, table.Find("sample_spec"))
	require.Equal(t, Amount(150_000_000), table.Find("small").Of(&usage.Tokens{Input: 1e6}))
	require.Equal(t, Amount(75_000_000), table.Find("small").Of(&usage.Tokens{CacheRead: 1e6}))
}

func TestNonsense(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":       {"", "no prices"},
		"no list":       {"prices: 3", "sequence"},
		"unknown key":   {"prices: [{model: a, input: 1, output: 1, inptu: 2}]", "inptu"},
		"no output":     {"prices: [{model: a, input: 1}]", "want input and output"},
		"no model":      {"prices: [{input: 1, output: 1}]", "model is"},
		"pattern":       {"prices: [{model: 'a[', input: 1, output: 1}]", "model is"},
		"negative":      {"prices: [{model: a, input: -1, output: 1}]", "not from 0"},
		"infinite":      {"prices: [{model: a, input: 1, output: .inf}]", "not from 0"},
		"no number":     {"prices: [{model: a, input: 1, output: .nan}]", "not from 0"},
		"huge":          {"prices: [{model: a, input: 1e300, output: 1}]", "not from 0"},
		"text":          {"prices: [{model: a, input: free, output: 1}]", "cannot unmarshal string"},
		"currency":      {"currency: dollars\nprices: [{model: a, input: 1, output: 1}]", "three letters"},
		"other JSON":    {`{"a": {"b": 1}}`, "no prices"},
		"LiteLLM's":     {`{"a": {"input_cost_per_token": -1, "output_cost_per_token": 1}}`, "not from 0"},
		"binary":        {"\x00\x01", ""},
		"aliases":       {"a: &a [*a, *a]\nprices: [{model: a, input: 1, output: 1}]", ""},
		"a second list": {"prices: []\nprices: [{model: a, input: 1, output: 1}]", "prices"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestLoad(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	path := filepath.Join(t.TempDir(), "prices.yaml")
	require.NoError(t, os.WriteFile(path, []byte("prices: {}"), 0o600))
	_, err = Load(path)
	require.ErrorContains(t, err, "prices.yaml: ")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(some))
	f.Add([]byte(liteLLM))
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := Parse(b)
		if err != nil {
			return
		}
		for i := range table.rows {
			got := table.rows[i].price.Of(
				&usage.Tokens{Input: 1 << 40, CacheRead: 1 << 40, CacheWrite: 1 << 40, Output: 1 << 40},
			)
			require.GreaterOrEqual(t, got, Amount(0))
			require.LessOrEqual(t, got, Amount(maxAmount))
		}
	})
}
