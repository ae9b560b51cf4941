package noderestriction

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"pintle.dev/pintle/kernel/api/resources/certificates"
)

const userPrefix = "system:node:"

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	client kubernetes.Interface
	nodes  corelisters.NodeLister
	pods   func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
}

var _ admission.MutationInterface = (*Plugin)(nil)

// New registers the informers it needs. pods reads one pod as it is stored, with the errors
// of a client; nil: the client does.
func New(client kubernetes.Interface, factory informers.SharedInformerFactory, pods func(ctx context.Context, namespace, name string) (*corev1.Pod, error)) *Plugin {
	if pods == nil {
		pods = func(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
			return client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		}
	}
	return &Plugin{
		Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete),
		client:  client,
		nodes:   factory.Core().V1().Nodes().Lister(),
		pods:    pods,
	}
}

// nodeOf returns the node a user is, and whether the user is a node at all.
func nodeOf(who user.Info) (string, bool) {
	if who == nil || !strings.HasPrefix(who.GetName(), userPrefix) || !slices.Contains(who.GetGroups(), user.NodesGroup) {
		return "", false
	}
	return strings.TrimPrefix(who.GetName(), userPrefix), true
}

func refuse(a admission.Attributes, format string, args ...any) error {
	return admission.NewForbidden(a, fmt.Errorf(format, args...))
}

// Admit implements admission.MutationInterface; it changes nothing.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	node, ok := nodeOf(a.GetUserInfo())
	if !ok {
		return nil
	}
	if node == "" {
		return refuse(a, "could not determine node from user %q", a.GetUserInfo().GetName())
	}
	switch a.GetResource().GroupResource() {
	case corev1.Resource("pods"):
		switch a.GetSubresource() {
		case "":
			return p.admitPod(ctx, node, a)
		case "status":
			return admitPodStatus(node, a)
		case "eviction":
			return p.admitEviction(ctx, node, a)
		}
		return refuse(a, "unexpected pod subresource %q, only 'status' and 'eviction' are allowed", a.GetSubresource())
	case corev1.Resource("nodes"):
		return admitNode(node, a)
	case corev1.Resource("persistentvolumeclaims"):
		if a.GetSubresource() != "status" {
			return refuse(a, "may only update PVC status")
		}
		return admitClaimStatus(node, a)
	case corev1.Resource("serviceaccounts"):
		return p.admitToken(ctx, node, a)
	case certificatesv1.Resource("certificatesigningrequests"):
		return admitSigningRequest(node, a)
	case coordinationv1.Resource("leases"):
		if a.GetNamespace() != corev1.NamespaceNodeLease {
			return refuse(a, "can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
		}
		if nameOf(a) != node {
			return refuse(a, "can only access node lease with the same name as the requesting node")
		}
	case storagev1.Resource("csinodes"):
		if nameOf(a) != node {
			return refuse(a, "can only access CSINode with the same name as the requesting node")
		}
	case resourcev1.Resource("resourceslices"):
		return admitSlice(node, a)
	}
	return nil
}

// admitSlice: a node makes and deletes slices of its own devices. The authorizer
// does not see what is in a new one, nor each that a deletecollection deletes.
func admitSlice(node string, a admission.Attributes) error {
	obj, verb := a.GetObject(), "create"
	switch a.GetOperation() {
	case admission.Create:
	case admission.Delete:
		obj, verb = a.GetOldObject(), "delete"
	default:
		return nil
	}
	slice, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return refuse(a, "unexpected type %T", obj)
	}
	if slice.Spec.NodeName == nil || *slice.Spec.NodeName != node {
		return refuse(a, "can only %s ResourceSlice with the same NodeName as the requesting node", verb)
	}
	return nil
}

// admitSigningRequest: a node asks the signers of nodes for its own certificates
// alone. What else such a request says is checked by who signs.
func admitSigningRequest(node string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return nil
	}
	o, ok := a.GetObject().(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return refuse(a, "unexpected type %T", a.GetObject())
	}
	if o.Spec.SignerName != certificatesv1.KubeletServingSignerName && o.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	asked, err := certificates.ParseRequest(o.Spec.Request)
	if err != nil {
		return refuse(a, "unable to parse csr: %w", err)
	}
	if asked.Subject.CommonName != userPrefix+node {
		return refuse(a, "can only create a node CSR with CN=%s%s", userPrefix, node)
	}
	return nil
}

// nameOf is the name of the object: for a create it stands in the body.
func nameOf(a admission.Attributes) string {
	if a.GetOperation() != admission.Create {
		return a.GetName()
	}
	accessor, err := meta.Accessor(a.GetObject())
	if err != nil {
		return ""
	}
	return accessor.GetName()
}

// pod looks the pod up, live: an informer would hold every pod of the cluster in memory.
func (p *Plugin) pod(ctx context.Context, a admission.Attributes, name string) (*corev1.Pod, error) {
	pod, err := p.pods(ctx, a.GetNamespace(), name)
	if apierrors.IsNotFound(err) {
		return nil, err
	}
	if err != nil {
		return nil, admission.NewForbidden(a, err)
	}
	return pod, nil
}

func (p *Plugin) admitEviction(ctx context.Context, node string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return refuse(a, "unexpected operation %s", a.GetOperation())
	}
	name := a.GetName()
	if name == "" {
		name = nameOf(a)
	}
	if name == "" {
		return refuse(a, "could not determine pod from request data")
	}
	pod, err := p.pod(ctx, a, name)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != node {
		return refuse(a, "node %s can only evict pods with spec.nodeName set to itself", node)
	}
	return nil
}

func (p *Plugin) admitToken(ctx context.Context, node string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create || a.GetSubresource() != "token" {
		return nil
	}
	request, ok := a.GetObject().(*authenticationv1.TokenRequest)
	if !ok {
		return refuse(a, "unexpected type %T", a.GetObject())
	}
	ref := request.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return refuse(a, "node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return refuse(a, "node requested token with a pod binding without a uid")
	}
	pod, err := p.pod(ctx, a, ref.Name)
	if err != nil {
		return err
	}
	if ref.UID != pod.UID {
		return refuse(a, "the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	}
	if pod.Spec.NodeName != node {
		// The binding may be younger than the cache.
		if pod, err = p.client.CoreV1().Pods(a.GetNamespace()).Get(ctx, ref.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if pod.UID != ref.UID || pod.Spec.NodeName != node {
			return refuse(a, "node requested token bound to a pod scheduled on a different node")
		}
	}
	return p.admitAudience(ctx, a, request, pod)
}

// admitAudience: a token is for whom the pod's own volumes say, or for whom the
// node was given the right to ask. Else a node could act as its pods towards
// anybody who trusts the cluster's tokens.
func (p *Plugin) admitAudience(ctx context.Context, a admission.Attributes, request *authenticationv1.TokenRequest, pod *corev1.Pod) error {
	audience := ""
	switch len(request.Spec.Audiences) {
	case 0:
	case 1:
		audience = request.Spec.Audiences[0]
	default:
		return refuse(a, "node may only request 0 or 1 audiences")
	}
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Projected == nil {
			continue
		}
		for _, source := range pod.Spec.Volumes[i].Projected.Sources {
			if source.ServiceAccountToken != nil && source.ServiceAccountToken.Audience == audience {
				return nil
			}
		}
	}
	who := a.GetUserInfo()
	review, err := p.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "request-serviceaccounts-token-audience", Namespace: a.GetNamespace(), Version: "v1", Resource: audience, Name: a.GetName(),
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return refuse(a, "audience %q not found in pod spec volume, error authorizing %s to request tokens for this audience: %w", audience, who.GetName(), err)
	}
	if !review.Status.Allowed {
		return refuse(a, "audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", audience, who.GetName())
	}
	return nil
}
