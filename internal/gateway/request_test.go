package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeadOf(t *testing.T) {
	for body, want := range map[string]head{
		`{"model":"m"}`: {model: "m", maxOutput: usualOutput},
		`{"model":"m","max_tokens":0,"max_output_tokens":null}`:                                 {model: "m", maxOutput: usualOutput},
		`{"model":"m","max_tokens":-5}`:                                                         {model: "m", maxOutput: usualOutput},
		`{"model":"m","max_tokens":3}`:                                                          {model: "m", maxOutput: 3},
		`{"max_tokens":5000,"max_completion_tokens":1,"model":"m"}`:                             {model: "m", maxOutput: 5000},
		`{"max_tokens":1,"max_completion_tokens":2,"max_output_tokens":6000,"model":"m\u0031"}`: {model: "m1", maxOutput: 6000},
		`{"model":"m","max_tokens":7,"n":3}`:                                                    {model: "m", maxOutput: 21},
		`{"model":"m","n":1000}`:                                                                {model: "m", maxOutput: usualOutput * mostChoices},
		`{"model":"m","max_tokens":1e4}`:                                                        {model: "m", maxOutput: mostOutput},
		`{"model":"m","max_tokens":"5000"}`:                                                     {model: "m", maxOutput: mostOutput},
		`{"model":"m","max_tokens":99999999999999999999999}`:                                    {model: "m", maxOutput: mostOutput},
		`{"model":"m","max_tokens":9000000000}`:                                                 {model: "m", maxOutput: mostOutput},
	} {
		h, err := headOf([]byte(body))
		require.Nil(t, err, body)
		h.request = want.request
		require.Equal(t, want, h, body)
	}
	for body, want := range map[string]string{
		`{"model":"m","model":"n"}`:                          "duplicate",
		`{"model":"m","mod\u0065l":"n"}`:                     "duplicate",
		`{"model":"m","max_tokens":9999,"max_tokens":1}`:     "duplicate",
		`{"model":"m","messages":[{"role":"a","role":"b"}]}`: "duplicate",
		`{"model":1}`:      "with a model",
		`["model"]`:        "with a model",
		`{"model":"m"} {}`: "text after",
	} {
		_, err := headOf([]byte(body))
		require.NotNil(t, err, body)
		require.Contains(t, err.Message, want, body)
	}
}
