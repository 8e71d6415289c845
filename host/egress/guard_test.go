package egress

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	s.options.Hosts = []string{"example.com:*", "10.0.0.1"}
	client := &http.Client{Transport: s.client(t).Guard()}
	post := func(url string) (string, error) {
		res, err := client.Post(url, "text/plain", strings.NewReader("hello"))
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return string(b), err
	}
	at := "http://example.com:" + s.port
	got, err := post(at)
	require.NoError(t, err)
	require.Equal(t, "hello", got)
	for url, want := range map[string]string{
		"http://127.0.0.1:" + s.port: "not among the hosts that the operator allows",
		at + "/?to=http://evil.org/": "not among the hosts that the operator allows",
		at + "/?to=http://10.0.0.1/": "private or reserved address",
		"http://0x7f.1/":             "looks like an address",
	} {
		_, err = post(url)
		require.ErrorContains(t, err, want)
	}
}
