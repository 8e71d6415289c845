package approver

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask asks an endpoint once.
func ask(t *testing.T, o Options, q Question) (*Answer, error) {
	a, err := New(o)
	require.NoError(t, err)
	defer a.Close()
	return a.Ask(t.Context(), q)
}

var question = Question{Run: "run_1", Route: "messages", Model: "m", Key: "ann",
	Call: Call{ID: "c1", Name: "rm", Arguments: `{"file":"a"}`},
	Asks: []Ask{{Entry: "approve", Reason: "deletes a file", Payload: json.RawMessage(`{"risk":"high"}`)}}}

func TestAsk(t *testing.T) {
	var got Question
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer approver-key", r.Header.Get("Authorization"))
		require.NoError(t, json.NewDecoder(r.Body).Decode(&got))
		_, _ = w.Write([]byte(`{"decision":"allow","reason":"fine\u001b[31m","approver":"Ann","more":1}`))
	}))
	defer s.Close()
	answer, err := ask(t, Options{URL: s.URL, Key: "approver-key", Timeout: time.Minute}, question)
	require.NoError(t, err)
	require.Equal(t, Allow, answer.Decision)
	require.Equal(t, "Ann", answer.Approver)
	require.NotContains(t, answer.Reason, "\x1b")
	require.InDelta(t, time.Now().Add(time.Minute).UnixMilli(), got.ExpiresMS, 30_000)
	got.ExpiresMS = 0
	require.Equal(t, question, got)
}

// hang reads a question, and never answers it.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client has disconnected
	<-r.Context().Done()
}

// TestNoAnswer checks that only a valid answer allows a call, and that a redirect does not send the
// question to another address.
func TestNoAnswer(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("the question was sent elsewhere")
		_, _ = w.Write([]byte(`{"decision":"allow"}`))
	}))
	defer elsewhere.Close()
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"hangs": {hang, "did not answer within 50ms"},
		"hangs in its answer": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"decision":"allow"`))
			_ = http.NewResponseController(w).Flush()
			hang(w, r)
		}, "did not answer within 50ms"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "answered 307"},
		"fails": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"decision":"allow"}`))
		}, "answered 500"},
		"breaks off":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "cannot be reached"},
		"says nothing":     {says(""), "no JSON object"},
		"says yes":         {says("yes"), "no JSON object"},
		"no decision":      {says("{}"), `decision is ""`},
		"another decision": {says(`{"decision":"Allow"}`), `decision is "Allow"`},
		"a list":           {says(`[{"decision":"allow"}]`), "no JSON object"},
		"two values":       {says(`{"decision":"allow"}{"decision":"deny"}`), "no JSON object"},
		"endless":          {says(`{"decision":"allow","reason":"` + strings.Repeat("a", maxAnswer) + `"}`), "more than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(c.answer)
			defer s.Close()
			timeout := 10 * time.Second
			if strings.HasPrefix(name, "hangs") {
				timeout = 50 * time.Millisecond
			}
			answer, err := ask(t, Options{URL: s.URL + "/?token=secret", Timeout: timeout}, question)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "secret")
			require.Nil(t, answer)
		})
	}
	_, err := ask(t, Options{URL: "http://127.0.0.1:1/?token=secret"}, question)
	require.ErrorContains(t, err, "cannot be reached")
	require.NotContains(t, err.Error(), "secret")
	large := question
	large.Call.Arguments = strings.Repeat("a", maxQuestion)
	_, err = ask(t, Options{URL: elsewhere.URL}, large)
	require.ErrorContains(t, err, "the question has more than")
	for _, u := range []string{"", "file:///etc/passwd", "//host", "ftp://host", "http://"} {
		_, err := New(Options{URL: u})
		require.ErrorContains(t, err, "want an address", u)
	}
}

// TestTooMany checks that the number of questions that wait for an approver is limited, and that one key cannot use
// all places and block the questions of others.
func TestTooMany(t *testing.T) {
	asked := make(chan struct{}, maxWaiting)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		hang(w, r)
	}))
	defer s.Close()
	a, err := New(Options{URL: s.URL, Shared: true})
	require.NoError(t, err)
	defer a.Close()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, maxWaiting)
	fill := func(q Question) {
		for range maxWaiting / 2 {
			go func() {
				_, err := a.Ask(ctx, q)
				failed <- err
			}()
		}
		for range maxWaiting / 2 {
			<-asked
		}
	}
	fill(question)
	_, err = a.Ask(ctx, question)
	require.EqualError(t, err,
		"too many questions wait for the approver: 32 of the key ann are in progress, the limit of one key")
	other := question
	other.Key = "bob"
	fill(other)
	other.Key = "eve"
	_, err = a.Ask(ctx, other)
	require.EqualError(t, err, "too many questions wait for the approver: 64 are in progress, the limit")
	cancel()
	for range maxWaiting {
		require.Error(t, <-failed)
	}
}
