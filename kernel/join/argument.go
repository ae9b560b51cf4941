package join

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cluster-bootstrap/util/tokens"
)

// defaultPort is the API server's where an argument names none.
const defaultPort = "6443"

// Form is what an argument looks like, for messages.
const Form = "TOKEN@HOST[:PORT]/sha256:HASH, as pintle token create --print-join-command prints it"

// Argument says which cluster to join, and by which token.
type Argument struct {
	// ID and Secret are the two halves of the bootstrap token.
	ID, Secret string
	// Server is a host and a port.
	Server string
	// Hash is that of the public key of the cluster's authority: sha256: and 64 digits.
	Hash string
}

// ParseArgument reads an argument. No error contains the token's secret.
func ParseArgument(text string) (Argument, error) {
	var a Argument
	token, rest, ok := strings.Cut(text, "@")
	if !ok {
		return a, errors.New("--join: no @ behind a token; want " + Form)
	}
	var err error
	if a.ID, a.Secret, err = tokens.ParseToken(token); err != nil {
		return a, errors.New("--join: what stands before @ is no bootstrap token, six and sixteen of a-z and 0-9 with a dot between; want " + Form)
	}
	server, hash, ok := strings.Cut(rest, "/")
	if !ok || hash == "" {
		return a, errors.New("--join: the hash of the cluster's authority is missing, without which anybody could say that this is the API server; want " + Form)
	}
	if a.Hash, err = parseHash(hash); err != nil {
		return a, fmt.Errorf("--join: %w; want %s", err, Form)
	}
	if a.Server, err = parseServer(server); err != nil {
		return a, fmt.Errorf("--join: %w; want %s", err, Form)
	}
	return a, nil
}

func parseHash(text string) (string, error) {
	digits, ok := strings.CutPrefix(strings.ToLower(text), "sha256:")
	if raw, err := hex.DecodeString(digits); !ok || err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("%q is no hash: sha256: and 64 hexadecimal digits", text)
	}
	return "sha256:" + digits, nil
}

func parseServer(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%q has no port of 1 to 65535", text)
	}
	if net.ParseIP(host) == nil && len(validation.IsDNS1123Subdomain(host)) > 0 {
		return "", fmt.Errorf("%q is no address or name of an API server", text)
	}
	return net.JoinHostPort(host, port), nil
}

// String is the argument as ParseArgument reads it, with the token.
func (a Argument) String() string {
	return fmt.Sprintf("%s.%s@%s/%s", a.ID, a.Secret, a.Server, a.Hash)
}

// url is the API server's.
func (a Argument) url() string { return "https://" + a.Server }

// Hash is that of a certificate's public key, as kubeadm's --discovery-token-ca-cert-hash.
func Hash(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}
