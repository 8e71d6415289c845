package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestVerifyPeer checks that a server does not start with a certificate that the others would reject.
func TestVerifyPeer(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	issue := func(usage []x509.ExtKeyUsage, until time.Duration, parent *x509.Certificate) *x509.Certificate {
		c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: rand.Text()},
			NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(until), ExtKeyUsage: usage,
			BasicConstraintsValid: true, IsCA: parent == nil, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
		if parent == nil {
			parent = c
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, key)
		require.NoError(t, err)
		parsed, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		return parsed
	}
	authority := issue(nil, time.Hour, nil)
	for _, c := range []struct {
		name, want string
		cert       *x509.Certificate
	}{
		{"valid", "", issue(both, time.Hour, authority)},
		{"any usage", "", issue(nil, time.Hour, authority)},
		{"expired", "expired", issue(both, -time.Hour, authority)},
		{"of a server only", "key usage", issue(both[:1], time.Hour, authority)},
		{"of a client only", "key usage", issue(both[1:], time.Hour, authority)},
		{"itself", "unknown authority", issue(both, time.Hour, nil)},
	} {
		pool := x509.NewCertPool()
		if c.name != "itself" {
			pool.AddCert(authority)
		}
		err := verifyPeer(&tls.Certificate{Certificate: [][]byte{c.cert.Raw}, PrivateKey: key, Leaf: c.cert}, pool)
		if c.want == "" {
			require.NoError(t, err, c.name)
		} else {
			require.ErrorContains(t, err, c.want, c.name)
		}
	}
}
