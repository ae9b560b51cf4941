package client

import (
	"fmt"
	"net/http"
	"sync"

	"k8s.io/client-go/kubernetes"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	nodev1 "k8s.io/client-go/kubernetes/typed/node/v1"
	"k8s.io/client-go/rest"
)

// Interface are the groups that an agent speaks.
type Interface interface {
	CoreV1() corev1.CoreV1Interface
	CoordinationV1() coordinationv1.CoordinationV1Interface
	NodeV1() nodev1.NodeV1Interface
	AuthenticationV1() authenticationv1.AuthenticationV1Interface
	AuthorizationV1() authorizationv1.AuthorizationV1Interface
}

var (
	_ Interface = kubernetes.Interface(nil)
	_ Interface = (*Lean)(nil)
)

// Lean makes the client of a group when it is first asked for.
type Lean struct {
	cfg  *rest.Config
	http *http.Client

	mu             sync.Mutex
	core           *corev1.CoreV1Client
	coordination   *coordinationv1.CoordinationV1Client
	node           *nodev1.NodeV1Client
	authentication *authenticationv1.AuthenticationV1Client
	authorization  *authorizationv1.AuthorizationV1Client
}

// NewLean makes a client; the configuration is kept and must not be changed any more. It is an error here if it is
// of no use for one of the groups.
func NewLean(cfg *rest.Config) (*Lean, error) {
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of the API: %w", err)
	}
	// The groups differ by their path alone: one that is made shows that all can be.
	core, err := corev1.NewForConfigAndClient(cfg, h)
	if err != nil {
		return nil, fmt.Errorf("client of the API: %w", err)
	}
	return &Lean{cfg: cfg, http: h, core: core}, nil
}

// CoreV1 implements Interface.
func (l *Lean) CoreV1() corev1.CoreV1Interface { return l.core }

// CoordinationV1 implements Interface.
func (l *Lean) CoordinationV1() coordinationv1.CoordinationV1Interface {
	return group(l, &l.coordination, coordinationv1.NewForConfigAndClient)
}

// NodeV1 implements Interface.
func (l *Lean) NodeV1() nodev1.NodeV1Interface {
	return group(l, &l.node, nodev1.NewForConfigAndClient)
}

// AuthenticationV1 implements Interface.
func (l *Lean) AuthenticationV1() authenticationv1.AuthenticationV1Interface {
	return group(l, &l.authentication, authenticationv1.NewForConfigAndClient)
}

// AuthorizationV1 implements Interface.
func (l *Lean) AuthorizationV1() authorizationv1.AuthorizationV1Interface {
	return group(l, &l.authorization, authorizationv1.NewForConfigAndClient)
}

func group[C any](l *Lean, have **C, make func(*rest.Config, *http.Client) (*C, error)) *C {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *have == nil {
		c, err := make(l.cfg, l.http)
		if err != nil {
			panic(fmt.Sprintf("client of the API: %v", err)) // NewLean made one of the same configuration
		}
		*have = c
	}
	return *have
}
