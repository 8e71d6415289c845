// Package modelapi sends requests to model APIs. It enforces timeouts and limits. It converts
// failures in any of the usual forms to a *model.Error that says what to do. Secrets of an endpoint
// do not appear in errors.
//
// An [Endpoint] is one address of an API. Package openai sends requests to it with go-openai. A
// [Client] is a model that uses a protocol of package wire.
package modelapi

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/redact"
)

// Defaults of [model.ClientOptions].
const (
	defaultConnectTimeout   = 10 * time.Second
	defaultFirstByteTimeout = 5 * time.Minute
	defaultIdleTimeout      = 2 * time.Minute
	defaultMaxAnswer        = 32 << 20
	defaultMaxEvent         = 4 << 20
)

// An API describes the endpoints of one provider.
type API struct {
	Package string // the provider's package, in errors
	Kind    string // names the API in errors, such as "an OpenAI-compatible API"
	BaseURL string // the default of the options' BaseURL
	Path    string // follows the base URL, such as /chat/completions
	// EnvKey and EnvBaseURL are the environment variables that the command reads, for advice in errors.
	EnvKey, EnvBaseURL string
}

// advice returns the names of the settings to check if the address of an endpoint may be wrong.
func (a *API) advice() string { return "--base-url or " + a.EnvBaseURL }

// withDefaults returns o with the defaults for api. It fails if a timeout or limit is negative.
func withDefaults(o model.ClientOptions, api *API) (model.ClientOptions, error) {
	if o.BaseURL == "" {
		o.BaseURL = api.BaseURL
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = defaultConnectTimeout
	}
	if o.FirstByteTimeout == 0 {
		o.FirstByteTimeout = defaultFirstByteTimeout
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = defaultIdleTimeout
	}
	if o.MaxAnswer == 0 {
		o.MaxAnswer = defaultMaxAnswer
	}
	if o.MaxEvent == 0 {
		o.MaxEvent = defaultMaxEvent
	}
	if o.ConnectTimeout < 0 || o.FirstByteTimeout < 0 || o.IdleTimeout < 0 || o.MaxAnswer < 0 || o.MaxEvent < 0 {
		return o, errors.New(api.Package + ": timeouts and limits cannot be negative")
	}
	o.Headers = maps.Clone(o.Headers)
	return o, nil
}

// An Endpoint is one address of a model API, with its key and limits.
type Endpoint struct {
	model.ClientOptions
	Base  string // the base URL without query
	Shown string // the endpoint's URL as shown in errors

	api     *API
	query   string
	http    *http.Client
	own     bool // the endpoint created its HTTP client
	secrets []*redact.Secret
}

// New returns an endpoint. It fails if the options are invalid. It does not connect.
func New(o model.ClientOptions, api *API) (*Endpoint, error) {
	opts, err := withDefaults(o, api)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.TrimSpace(opts.BaseURL))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// The parse error contains the URL, which may contain a password.
		return nil, fmt.Errorf("%s: the base URL is not an address like %s; check %s", api.Package, api.BaseURL, api.advice())
	}
	e := &Endpoint{ClientOptions: opts, api: api, query: u.RawQuery, secrets: secrets(opts, u)}
	u.RawQuery, u.Fragment = "", ""
	e.Base = strings.TrimRight(u.String(), "/")
	u.User = nil
	e.Shown = strings.TrimRight(u.String(), "/")
	for name, value := range opts.Headers {
		if strings.ContainsAny(name+value, "\r\n\x00") {
			return nil, fmt.Errorf("%s: header %q holds a line break", api.Package, name)
		}
	}
	if strings.ContainsAny(opts.APIKey, "\r\n\x00") {
		return nil, fmt.Errorf("%s: the API key holds a line break; check %s", api.Package, api.EnvKey)
	}
	e.http, e.own = httpClient(opts)
	return e, nil
}

// Close closes idle connections if the endpoint has its own HTTP client. It does not affect active requests.
func (e *Endpoint) Close() {
	if e.own {
		e.http.CloseIdleConnections()
	}
}

// httpClient returns the client for requests, and whether httpClient created it. Otherwise it is
// the client of the options, with redirects disabled.
func httpClient(opts model.ClientOptions) (*http.Client, bool) {
	// A redirect would send the key to another host. The user should configure the target instead.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if opts.HTTPClient != nil {
		c := *opts.HTTPClient
		c.CheckRedirect = stay
		return &c, false
	}
	return &http.Client{CheckRedirect: stay, Transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: opts.ConnectTimeout}).DialContext,
		TLSHandshakeTimeout:    opts.ConnectTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
	}}, true
}
