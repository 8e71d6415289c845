package signin

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	maxResponse     = 1 << 20 // bytes of a response of the provider
	providerTimeout = 10 * time.Second
	// keysInterval is the minimum time between two requests for the provider's keys. Tokens with
	// unknown keys, which anyone can send, cause no more.
	keysInterval = 30 * time.Second
)

// A transport limits the size of the provider's responses. For keysInterval it caches responses to
// GET requests, which ask for the configuration and the keys.
type transport struct {
	next http.RoundTripper
	now  func() time.Time

	mu   sync.Mutex
	last map[string]*savedResponse // by URL; the provider's configuration chooses the few URLs
}

type savedResponse struct {
	at     time.Time
	status int
	header http.Header
	body   []byte
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		res, err := t.next.RoundTrip(r)
		if err == nil {
			res.Body = struct {
				io.Reader
				io.Closer
			}{io.LimitReader(res.Body, maxResponse), res.Body}
		}
		return res, err
	}
	t.mu.Lock() // one request at a time: the others get its response
	defer t.mu.Unlock()
	if s := t.last[r.URL.String()]; s != nil && t.now().Sub(s.at) < keysInterval {
		return s.response(r), nil
	}
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxResponse {
		return nil, fmt.Errorf("the response of %s is larger than %d bytes", r.URL.Host, maxResponse)
	}
	if len(t.last) >= 8 {
		t.last = nil
	}
	if t.last == nil {
		t.last = map[string]*savedResponse{}
	}
	s := &savedResponse{t.now(), res.StatusCode, res.Header, b}
	t.last[r.URL.String()] = s
	return s.response(r), nil
}

func (s *savedResponse) response(r *http.Request) *http.Response {
	return &http.Response{
		StatusCode: s.status, Status: http.StatusText(s.status), Header: s.header.Clone(), Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(s.body)), ContentLength: int64(len(s.body)),
	}
}
