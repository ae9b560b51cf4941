package api

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api/auth/csrsigning"
)

// signerIdentity has the role that says for which signers the cluster's authority signs.
var signerIdentity = &user.DefaultInfo{Name: csrsigning.User, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}}

// SignRequests signs approved CertificateSigningRequests until ctx ends. Of the kernels
// that share a backend, one at a time does this.
func (s *Server) SignRequests(ctx context.Context) error {
	source, err := s.Source(certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"), nil)
	if err != nil {
		return fmt.Errorf("sign certificate requests: %w", err)
	}
	client, err := kubernetes.NewForConfig(s.ClientConfig(signerIdentity))
	if err != nil {
		return fmt.Errorf("sign certificate requests: client: %w", err)
	}
	c, err := csrsigning.New(csrsigning.Config{
		Client: client.CertificatesV1(), Requests: source, Authority: s.pki, Duration: s.cfg.ClusterSigningDuration, Logger: s.log,
	})
	if err != nil {
		return fmt.Errorf("sign certificate requests: %w", err)
	}
	c.Run(ctx)
	return ctx.Err()
}
