package token

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

const algorithm = jose.ES256

// privateClaims are the claims beyond RFC 7519.
type privateClaims struct {
	Kubernetes kubernetesClaims `json:"kubernetes.io"`
}

type kubernetesClaims struct {
	Namespace      string           `json:"namespace,omitempty"`
	ServiceAccount reference        `json:"serviceaccount"`
	Pod            *reference       `json:"pod,omitempty"`
	Secret         *reference       `json:"secret,omitempty"`
	Node           *reference       `json:"node,omitempty"`
	WarnAfter      *jwt.NumericDate `json:"warnafter,omitempty"`
}

type reference struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// Binding is what a token's life hangs on besides its service account. A
// secret excludes the others; a node beside a pod only says where it runs.
type Binding struct {
	Pod    *corev1.Pod
	Secret *corev1.Secret
	Node   *corev1.Node
}

// Request is one token to be issued.
type Request struct {
	ServiceAccount *corev1.ServiceAccount
	Binding        Binding
	Audiences      []string
	// Expiration is the life of the token from now on.
	Expiration time.Duration
	// WarnAfter, when not 0, marks uses after that time as stale in the audit
	// log.
	WarnAfter time.Duration
}

// Issuer signs tokens. It is safe for concurrent use.
type Issuer struct {
	url    string
	signer jose.Signer
	now    func() time.Time
}

// NewIssuer returns an issuer whose tokens carry url in their iss claim.
func NewIssuer(url string, key *ecdsa.PrivateKey) (*Issuer, error) {
	if url == "" {
		return nil, errors.New("token issuer: empty issuer url")
	}
	if key == nil || key.Curve != elliptic.P256() {
		return nil, errors.New("token issuer: want an ecdsa p-256 key")
	}
	id, err := keyID(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: algorithm,
		Key:       jose.JSONWebKey{Algorithm: string(algorithm), Key: key, KeyID: id, Use: "sig"},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("token issuer: %w", err)
	}
	return &Issuer{url: url, signer: signer, now: time.Now}, nil
}

// Issue returns the compact form of a token and its unique id.
func (i *Issuer) Issue(req Request) (compact, id string, err error) {
	bound := req.Binding
	if bound.Secret != nil && (bound.Node != nil || bound.Pod != nil) {
		return "", "", errors.New("internal error, token can only be bound to one object type")
	}
	now := i.now()
	public := jwt.Claims{
		Issuer:    i.url,
		Subject:   serviceaccount.MakeUsername(req.ServiceAccount.Namespace, req.ServiceAccount.Name),
		Audience:  req.Audiences,
		IssuedAt:  jwt.NewNumericDate(now),
		NotBefore: jwt.NewNumericDate(now),
		Expiry:    jwt.NewNumericDate(now.Add(req.Expiration)),
		ID:        uuid.NewString(),
	}
	private := privateClaims{Kubernetes: kubernetesClaims{
		Namespace:      req.ServiceAccount.Namespace,
		ServiceAccount: reference{Name: req.ServiceAccount.Name, UID: string(req.ServiceAccount.UID)},
	}}
	claims := &private.Kubernetes
	if pod := bound.Pod; pod != nil {
		claims.Pod = &reference{Name: pod.Name, UID: string(pod.UID)}
	}
	if secret := bound.Secret; secret != nil {
		claims.Secret = &reference{Name: secret.Name, UID: string(secret.UID)}
	}
	if node := bound.Node; node != nil {
		claims.Node = &reference{Name: node.Name, UID: string(node.UID)}
	}
	if req.WarnAfter != 0 {
		claims.WarnAfter = jwt.NewNumericDate(now.Add(req.WarnAfter))
	}
	compact, err = jwt.Signed(i.signer).Claims(private).Claims(public).Serialize()
	return compact, public.ID, err
}

// keyID is the unpadded base64url form of the SHA-256 of the key's DER.
func keyID(key *ecdsa.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encode public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
