package csr

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

// Upstream's: how soon and how rarely a request is tried again.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 1000 * time.Second
	approvers  = 5
)

// freshFor is how long another than the node may have its request approved. The controller
// may have been away meanwhile; a machine that joins waits for minutes, and asks anew each
// time. Upstream has no such limit.
const freshFor = time.Hour

type approver struct {
	client   kubernetes.Interface
	requests certificateslisters.CertificateSigningRequestLister
	informer cache.SharedIndexInformer
	now      func() time.Time
	loop     *queue.Loop[string]
	log      *slog.Logger
	names    names
}

// NewApprover builds csrapproving.
func NewApprover(c *controller.Context) (controller.Runner, error) {
	if len(c.Config) > 0 && strings.TrimSpace(string(c.Config)) != "{}" {
		return nil, errors.New("csrapproving has no configuration")
	}
	requests := c.Informers.Certificates().V1().CertificateSigningRequests()
	a := &approver{client: c.Client, requests: requests.Lister(), informer: requests.Informer(), now: time.Now, log: c.Logger}
	if err := a.names.index(a.informer); err != nil {
		return nil, fmt.Errorf("csrapproving: index of approved requests: %w", err)
	}
	a.loop = queue.New(c.Logger, a.sync, queue.Options[string]{
		Name: "certificate", Workers: approvers,
		Limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
	})
	return a, nil
}

// Run works until ctx ends.
func (a *approver) Run(ctx context.Context) error {
	return a.loop.Follow(ctx, queue.Watch{Informer: a.informer, Handler: queue.On(func(_, current *certificatesv1.CertificateSigningRequest) {
		if current != nil {
			a.loop.Add(current.Name)
		}
	})})
}

// recognized are the requests that may be approved, by the subresource that the
// requestor must be allowed to create.
var recognized = []struct {
	subresource, message string
	own                  bool // the requestor is the node
}{
	{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.", true},
	{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.", false},
}

func (a *approver) sync(ctx context.Context, name string) error {
	r, err := a.requests.Get(name)
	if apierrors.IsNotFound(err) {
		a.names.seen(name)
		return nil
	}
	if err != nil {
		return err
	}
	if len(r.Status.Certificate) > 0 || decided(r) {
		a.names.seen(name)
		return nil
	}
	x, err := parse(r.Spec.Request)
	if err != nil {
		return fmt.Errorf("unable to parse csr %q: %w", name, err)
	}
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || !isNodeClient(x, r.Spec.Usages) {
		return nil
	}
	var tried []string
	for _, kind := range recognized {
		if kind.own && r.Spec.Username != x.Subject.CommonName {
			continue
		}
		tried = append(tried, kind.subresource)
		allowed, err := a.allowed(ctx, r, kind.subresource)
		if err != nil {
			return fmt.Errorf("request %s: subject access review: %w", name, err)
		}
		if !allowed {
			continue
		}
		if r.Spec.Username != x.Subject.CommonName {
			if vacant, err := a.vacant(ctx, r, x); err != nil || !vacant {
				return err
			}
			return a.first(ctx, r, x, kind.message)
		}
		return approve(ctx, a.client, r, kind.message)
	}
	// Rights may come later, so it is tried again.
	return queue.Quiet(fmt.Errorf("recognized csr %q as %v but subject access review was not approved", name, tried))
}

// vacant reports whether a node's name is free for another who asks, and soon enough. With
// the certificate of a Node that exists, who holds a bootstrap token would be that node, and
// read its pods' Secrets: the request is denied, so that it is not approved when the Node is
// deleted later. Upstream approves.
func (a *approver) vacant(ctx context.Context, r *certificatesv1.CertificateSigningRequest, x *x509.CertificateRequest) (bool, error) {
	name := strings.TrimPrefix(x.Subject.CommonName, nodePrefix)
	// Not by the cache, which may have a Node that is deleted, or not have a new one.
	_, err := a.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		a.log.Warn("a certificate of a node that exists is asked for by another; it is denied", "request", r.Name, "node", name, "requestor", r.Spec.Username)
		return false, decide(ctx, a.client, r, certificatesv1.CertificateDenied, "NodeExists",
			fmt.Sprintf("Node %[1]s exists, and %[2]s is not that node. If its machine is gone, delete the Node (pintle kubectl delete node %[1]s) and join again; else choose another name.", name, r.Spec.Username))
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("request %s: look for node %s: %w", r.Name, name, err)
	case a.now().Sub(r.CreationTimestamp.Time) > freshFor:
		a.log.Warn("a request for a node's certificate is too old to be approved; join again, or approve it by hand", "request", r.Name, "node", name, "requestor", r.Spec.Username, "limit", freshFor)
		return false, nil
	}
	return true, nil
}

// first approves a request for a name of which no other machine has had one approved, and
// denies it otherwise: both would be one node. Upstream approves.
func (a *approver) first(ctx context.Context, r *certificatesv1.CertificateSigningRequest, x *x509.CertificateRequest, message string) error {
	a.names.mu.Lock() // until it is decided
	defer a.names.mu.Unlock()
	name := strings.TrimPrefix(x.Subject.CommonName, nodePrefix)
	rival, err := a.names.rival(a.informer.GetIndexer(), r, x)
	if err != nil {
		return err
	}
	if rival != nil {
		a.log.Warn("two machines ask for the certificate of one node; the second is denied", "node", name, "request", r.Name, "requestor", r.Spec.Username, "first", rival.Name, "its requestor", rival.Spec.Username)
		return decide(ctx, a.client, r, certificatesv1.CertificateDenied, "NodeRequested",
			fmt.Sprintf("Another machine has asked for the certificate of node %[1]s before, by request %[2]s of %[3]s. Choose another name; or delete that request (pintle kubectl delete csr %[2]s) if its machine does not join, and join again.",
				name, rival.Name, rival.Spec.Username))
	}
	a.names.chosen[x.Subject.CommonName] = r
	return approve(ctx, a.client, r, message)
}

func approve(ctx context.Context, client kubernetes.Interface, r *certificatesv1.CertificateSigningRequest, message string) error {
	return decide(ctx, client, r, certificatesv1.CertificateApproved, "AutoApproved", message)
}

func decide(ctx context.Context, client kubernetes.Interface, r *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType, reason, message string) error {
	r = r.DeepCopy()
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message,
	})
	if _, err := client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("error updating approval for csr: %w", err)
	}
	return nil
}

func (a *approver) allowed(ctx context.Context, r *certificatesv1.CertificateSigningRequest, subresource string) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(r.Spec.Extra))
	for k, v := range r.Spec.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	review, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: certificatesv1.GroupName, Version: "*", Resource: "certificatesigningrequests", Subresource: subresource, Verb: "create",
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

func decided(r *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied
	})
}

func parse(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

const nodesGroup, nodePrefix = "system:nodes", "system:node:"

// ofNode: a request about a node, and nobody else.
func ofNode(x *x509.CertificateRequest) bool {
	return slices.Equal(x.Subject.Organization, []string{nodesGroup}) && strings.HasPrefix(x.Subject.CommonName, nodePrefix)
}

// isNodeClient: a request for the client certificate of a node, and nothing else.
func isNodeClient(x *x509.CertificateRequest, usages []certificatesv1.KeyUsage) bool {
	if !ofNode(x) || len(x.DNSNames)+len(x.EmailAddresses)+len(x.IPAddresses)+len(x.URIs) > 0 {
		return false
	}
	return uses(usages, certificatesv1.UsageClientAuth)
}

// uses: the usages are digital signature and one more, with or without key encipherment.
func uses(usages []certificatesv1.KeyUsage, one certificatesv1.KeyUsage) bool {
	asked := map[certificatesv1.KeyUsage]bool{}
	for _, u := range usages {
		asked[u] = true
	}
	if !asked[certificatesv1.UsageDigitalSignature] || !asked[one] {
		return false
	}
	delete(asked, certificatesv1.UsageKeyEncipherment) // keys other than RSA go without
	return len(asked) == 2
}
