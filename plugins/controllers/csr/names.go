package csr

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/cache"
)

// names knows for which names of nodes another than the node has had a request approved.
type names struct {
	mu sync.Mutex
	// chosen are those that are approved and that the cache may not show so yet, by the
	// subject's common name.
	chosen map[string]*certificatesv1.CertificateSigningRequest
}

const byApprovedName = "csrapproving.approvedName"

// index lets the cache be asked for approved requests by their subject's common name.
func (n *names) index(informer cache.SharedIndexInformer) error {
	n.chosen = map[string]*certificatesv1.CertificateSigningRequest{}
	err := informer.AddIndexers(cache.Indexers{byApprovedName: func(obj any) ([]string, error) {
		r, ok := obj.(*certificatesv1.CertificateSigningRequest)
		if !ok || r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || !stands(r) {
			return nil, nil
		}
		// One that cannot be read is of no node.
		if x, err := parse(r.Spec.Request); err == nil && r.Spec.Username != x.Subject.CommonName {
			return []string{x.Subject.CommonName}, nil
		}
		return nil, nil
	}})
	if _, there := informer.GetIndexer().GetIndexers()[byApprovedName]; there {
		return nil
	}
	return err
}

// stands: approved, and neither denied nor failed.
func stands(r *certificatesv1.CertificateSigningRequest) bool {
	has := func(kind certificatesv1.RequestConditionType) bool {
		return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == kind })
	}
	return has(certificatesv1.CertificateApproved) && !has(certificatesv1.CertificateDenied) && !has(certificatesv1.CertificateFailed)
}

// rival is the approved request of another machine for the same name, nil where there is none.
// One of the same key is of the same machine. The caller holds mu.
func (n *names) rival(cached cache.Indexer, r *certificatesv1.CertificateSigningRequest, x *x509.CertificateRequest) (*certificatesv1.CertificateSigningRequest, error) {
	found, err := cached.ByIndex(byApprovedName, x.Subject.CommonName)
	if err != nil {
		return nil, fmt.Errorf("request %s: look for another machine's of node %s: %w", r.Name, x.Subject.CommonName, err)
	}
	if chosen := n.chosen[x.Subject.CommonName]; chosen != nil {
		found = append(found, chosen)
	}
	for _, obj := range found {
		other := obj.(*certificatesv1.CertificateSigningRequest)
		if other.UID == r.UID {
			continue
		}
		if y, err := parse(other.Spec.Request); err != nil || !bytes.Equal(x.RawSubjectPublicKeyInfo, y.RawSubjectPublicKeyInfo) {
			return other, nil
		}
	}
	return nil, nil //nolint:nilnil // the name is free
}

// seen drops a request of chosen: the cache shows what became of it.
func (n *names) seen(request string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, r := range n.chosen { // those of a moment
		if r.Name == request {
			delete(n.chosen, name)
		}
	}
}
