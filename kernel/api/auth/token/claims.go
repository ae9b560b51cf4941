package token

import (
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

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
	url  string
	keys *Keys
	now  func() time.Time
}

// NewIssuer returns an issuer whose tokens carry url in their iss claim.
func NewIssuer(url string, keys *Keys) (*Issuer, error) {
	if url == "" {
		return nil, errors.New("token issuer: empty issuer url")
	}
	if keys == nil || keys.now.Load() == nil {
		return nil, errors.New("token issuer: no keys")
	}
	return &Issuer{url: url, keys: keys, now: time.Now}, nil
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
	signer := i.keys.now.Load().signer
	if signer == nil {
		return "", "", errNoSigner
	}
	compact, err = jwt.Signed(signer).Claims(private).Claims(public).Serialize()
	return compact, public.ID, err
}
