package modelapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/redact"
)

// maxShown is the maximum length of an endpoint's text in an error, in characters.
const maxShown = 300

// maxRedacted is the maximum number of bytes of an endpoint's text that are read for an error.
const maxRedacted = 64 << 10

// minSecret is the minimum length of a redacted secret, in bytes. Shorter values occur in other
// text by chance.
const minSecret = 4

// A problem is an endpoint's description of a failure, in any of the usual forms.
type problem struct {
	message string
	kind    string // type or code, in words
	status  int    // HTTP status in the description, or 0
}

// problemOf decodes {"error": {"message", "type", "code"}}, {"error": "text"} and {"detail": ...}.
// The error may also be the outer object, or the first element of an array.
func problemOf(raw []byte) problem {
	raw = bytes.TrimSpace(raw)
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		raw = list[0]
	}
	var p problem
	for range 3 { // errors may be nested
		var o map[string]json.RawMessage
		if json.Unmarshal(raw, &o) != nil {
			break
		}
		p.merge(o)
		if raw = o["error"]; !isSet(raw) {
			break
		}
		if s := str(raw); s != "" {
			p.message = s
			break
		}
	}
	return p
}

// merge adds the fields of o, which is inside the objects that were merged before. The message and the
// status of o replace theirs, and its types and codes are appended.
func (p *problem) merge(o map[string]json.RawMessage) {
	for _, name := range []string{"detail", "error_description", "message"} {
		switch v := o[name]; {
		case str(v) != "":
			p.message = str(v)
		case isSet(v):
			p.message = string(v)
		}
	}
	for _, name := range []string{"type", "status", "code"} {
		var n int
		if json.Unmarshal(o[name], &n) == nil && n >= 400 && n < 600 {
			p.status = n
		}
		if s := str(o[name]); s != "" && s != "error" {
			p.kind += " " + s
			if n, err := strconv.Atoi(s); err == nil && n >= 400 && n < 600 {
				p.status = n
			}
		}
	}
}

// IsProblem reports whether raw, an event of a stream that has neither choices nor an error field,
// describes a failure.
func IsProblem(raw []byte) bool {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil {
		return false
	}
	return str(o["type"]) == "error" || str(o["object"]) == "error" || isSet(o["detail"]) ||
		isSet(o["code"]) && isSet(o["message"])
}

var (
	finalWords = regexp.MustCompile(
		`(?i)invalid|authenti|permission|not_found|quota|billing|content_filter|content_policy|context_length|unsupported`,
	)
	title  = regexp.MustCompile(`(?is)<title[^>]*>(.{0,400}?)</title>`)
	blanks = regexp.MustCompile(`[\s\pC]+`)
)

// retryable reports whether the same request may succeed later.
func (p problem) retryable() bool {
	switch {
	case p.status == 429:
		return !strings.Contains(p.kind, "insufficient_quota")
	case p.status != 0:
		return retryableStatus(p.status)
	default:
		return !finalWords.MatchString(p.kind)
	}
}

func retryableStatus(status int) bool {
	return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500
}

// statusError returns the error for a response without a success status.
func (e *Endpoint) statusError(resp *http.Response, body []byte, modelName string) *model.Error {
	status := resp.StatusCode
	p := problemOf(body)
	p.status = status
	text := e.Short(p.message)
	if text == "" {
		text = e.page(body)
	}
	failed := &model.Error{
		Code: abi.CodeModel, Status: status, Retryable: p.retryable(), RetryAfter: retryAfter(resp.Header, time.Now()),
		Message: fmt.Sprintf("%s answered %s", e.Shown, strings.TrimSpace(fmt.Sprint(status, " ", http.StatusText(status)))),
	}
	if text != "" {
		failed.Message += ": " + text
	}
	if hint := e.hint(resp, p, modelName); hint != "" {
		failed.Message += "; " + hint
	}
	if status == http.StatusBadRequest || status == http.StatusUnprocessableEntity {
		failed.Err = &rejection{body}
	}
	return failed
}

// A rejection is the cause of the error of a request that the endpoint found invalid.
type rejection struct{ body []byte }

func (r *rejection) Error() string { return "the endpoint rejected the request" }

// Rejects reports whether err means that the endpoint found a request invalid, and its response
// contains text.
func Rejects(err error, text string) bool {
	r, ok := errors.AsType[*rejection](err)
	return ok && bytes.Contains(r.body, []byte(text))
}

// hint returns advice on how to fix the failure, or "".
func (e *Endpoint) hint(resp *http.Response, p problem, modelName string) string {
	switch status := resp.StatusCode; {
	case status == 401 && e.APIKey == "":
		return "set " + e.api.EnvKey + " to a key of this endpoint"
	case status == 401:
		return "check that " + e.api.EnvKey + " is a key of this endpoint (--base-url)"
	case status == 403:
		return fmt.Sprintf("check that the key in %s may use model %q", e.api.EnvKey, modelName)
	case status == 404:
		return fmt.Sprintf("check that this endpoint has model %q (--model) and that its address is right (%s)",
			modelName, e.api.advice())
	case status == 429 && !p.retryable():
		return "the account's quota is used up"
	case status < 400:
		if u, err := resp.Location(); err == nil {
			u.User, u.RawQuery = nil, ""
			return fmt.Sprintf("redirects are not followed; if %s is right, use it for --base-url",
				strings.TrimSuffix(u.String(), e.api.Path))
		}
		return "redirects are not followed; check --base-url"
	}
	return ""
}

// Reported returns the error that an answer with status 200 contains.
func (e *Endpoint) Reported(raw []byte) *model.Error {
	p := problemOf(raw)
	text := e.Short(p.message)
	if text == "" {
		text = e.Short(string(raw))
	}
	return &model.Error{
		Code: abi.CodeModel, Status: p.status, Retryable: p.retryable(),
		Message: fmt.Sprintf("%s answered with an error: %s", e.Shown, text),
	}
}

// BrokenOff returns the error for an answer that is incomplete or damaged. what describes the part
// that was received.
func (e *Endpoint) BrokenOff(what string) *model.Error {
	return &model.Error{
		Code:      abi.CodeModel,
		Retryable: true,
		Message:   fmt.Sprintf("%s broke off: it answered with %s", e.Shown, what),
	}
}

func (e *Endpoint) tooLarge() *model.Error {
	return model.Errorf(abi.CodeModel, "%s answered with more than %d bytes", e.Shown, e.MaxAnswer)
}

// NotJSON returns the error for a response with status 200 whose body is not JSON.
func (e *Endpoint) NotJSON(body []byte) *model.Error {
	if bytes.HasPrefix(body, []byte("{")) || bytes.HasPrefix(body, []byte("[")) {
		return e.BrokenOff("JSON that is not whole: " + e.Short(string(body)))
	}
	return model.Errorf(
		abi.CodeModel,
		"%s answered with something that is not JSON: %s; check that it is the address of %s (%s)",
		e.Shown, e.page(body), e.api.Kind, e.api.advice(),
	)
}

// page returns a short form of a body that is not an error object.
func (e *Endpoint) page(body []byte) string {
	body = bytes.TrimSpace(body)
	if !bytes.HasPrefix(body, []byte("<")) {
		return e.Short(string(body))
	}
	if m := title.FindSubmatch(body); m != nil {
		return fmt.Sprintf("an HTML page, %q", e.Short(string(m[1])))
	}
	return "an HTML page"
}

// Short returns s redacted, on one line, and truncated to maxShown characters.
func (e *Endpoint) Short(s string) string {
	s = e.redacted(s[:min(len(s), maxRedacted)]) // before truncation, which would leave a part of a key
	if len(s) > 8*maxShown {
		s = s[:8*maxShown]
	}
	s = strings.TrimSpace(blanks.ReplaceAllString(strings.ToValidUTF8(s, "\ufffd"), " "))
	if r := []rune(s); len(r) > maxShown {
		s = string(r[:maxShown]) + "…"
	}
	return s
}

// retryAfter returns the delay that an endpoint requests in milliseconds, in seconds or as a date,
// or 0 if it requests none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return pause(ms / 1000)
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return pause(s)
	}
	if at, err := http.ParseTime(value); err == nil {
		return pause(at.Sub(now).Seconds())
	}
	return 0
}

// pause converts seconds to a duration, clamped to the range from 0 to one day.
func pause(seconds float64) time.Duration {
	if math.IsNaN(seconds) {
		return 0
	}
	return time.Duration(max(0, min(seconds, 24*60*60)) * float64(time.Second))
}

// Failure returns the error of a call that err, or a timeout, ended before the answer was complete. If
// the context that NewCall received is done, it returns that context's error. Otherwise the error is
// a *model.Error.
func (k *Call) Failure(err error) error {
	var modelErr *model.Error
	switch cause := context.Cause(k.Context); {
	case k.parent.Err() != nil:
		return k.parent.Err()
	case errors.As(err, &modelErr):
		return modelErr
	case errors.Is(cause, errFirstByte):
		return late(abi.CodeUnavailable, "%s did not answer within %s", k.Shown, k.FirstByteTimeout)
	case errors.Is(cause, errIdle):
		return late(abi.CodeModel, "%s broke off: it paused for more than %s", k.Shown, k.IdleTimeout)
	case k.begun:
		return k.BrokenOff("a part of it: " + plain(err).Error())
	}
	return k.unreached(plain(err))
}

// late returns an error for an exceeded timeout. It wraps no cause, since context.DeadlineExceeded
// means the deadline of the run.
func late(code abi.Code, format string, args ...any) *model.Error {
	return &model.Error{Code: code, Retryable: true, Message: fmt.Sprintf(format, args...)}
}

// plain removes the URL, which may contain a key, from an error.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// unreached returns the error for an endpoint that sent no answer because of err.
func (e *Endpoint) unreached(err error) *model.Error {
	failed := &model.Error{Code: abi.CodeUnavailable, Retryable: true, Err: err}
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		failed.Message = fmt.Sprintf(
			"cannot connect to %s: connection refused; is it running, and is the address right (%s)?", e.Shown, e.api.advice())
	case errors.As(err, &dns):
		failed.Retryable = !dns.IsNotFound
		failed.Message = fmt.Sprintf("cannot connect to %s: host %s is not found; check the network and the address (%s)",
			e.Shown, dns.Name, e.api.advice())
	case isTLS(err):
		failed.Retryable = false
		failed.Message = fmt.Sprintf("cannot connect to %s securely: %s", e.Shown, e.Short(err.Error()))
	case errors.As(err, &timeout) && timeout.Timeout():
		return late(abi.CodeUnavailable, "cannot connect to %s in time", e.Shown)
	default:
		failed.Message = fmt.Sprintf("cannot get an answer of %s: %s", e.Shown, e.Short(err.Error()))
	}
	return failed
}

func isTLS(err error) bool {
	var verify *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &verify) || errors.As(err, &header) || errors.As(err, &unknown)
}

// secrets returns the values that must not appear in errors.
func secrets(opts model.ClientOptions, base *url.URL) []*redact.Secret {
	values := []string{opts.APIKey}
	for _, v := range opts.Headers {
		values = append(values, v, strings.TrimPrefix(v, "Bearer "))
	}
	for _, vs := range base.Query() {
		values = append(values, vs...)
	}
	if p, ok := base.User.Password(); ok {
		values = append(values, p)
	}
	var out []*redact.Secret
	for _, v := range values {
		if len(v) >= minSecret {
			out = append(out, redact.NewSecret(v, "***"))
		}
	}
	return out
}

// Redacted returns a copy of err with secrets redacted from its message if err is a *model.Error. It
// returns any other error unchanged.
func (e *Endpoint) Redacted(err error) error {
	failed, ok := err.(*model.Error) //nolint:errorlint // an error that holds one is the sink's, and stays as it is
	if !ok {
		return err
	}
	shown := *failed
	shown.Message = e.redacted(shown.Message)
	return &shown
}

// redacted returns s with the secrets of the endpoint, in any spelling, replaced with "***". If s is
// too complex to search, it returns only "***".
func (e *Endpoint) redacted(s string) string {
	out, err := redact.Text(s, e.secrets)
	if err != nil {
		return "***"
	}
	return out
}

// isSet reports whether a field is present and not null.
func isSet(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] != 'n' }

// str returns the value of a JSON string, or "" for any other value.
func str(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
