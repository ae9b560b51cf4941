package api_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applynetworkingv1 "k8s.io/client-go/applyconfigurations/networking/v1"
)

func ingress(name string) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
			Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}},
	}
}

// An ingress has the default class, a status that only its subresource changes,
// fields of several appliers, and counts against a quota.
func TestIngresses(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s).NetworkingV1()
	if _, err := c.IngressClasses().Create(ctx, &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: "public", Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}},
		Spec:       networkingv1.IngressClassSpec{Controller: "example.com/proxy", Parameters: &networkingv1.IngressClassParametersReference{Kind: "P", Name: "p"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	class, err := c.IngressClasses().Get(ctx, "public", metav1.GetOptions{})
	if err != nil || class.Generation != 1 || *class.Spec.Parameters.Scope != "Cluster" {
		t.Errorf("class: %+v, %v", class, err)
	}
	var made *networkingv1.Ingress
	waitFor(t, func() bool { // the class is known to admission a moment later
		given := ingress("")
		given.GenerateName = "i-"
		given.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "1.2.3.4"}}
		if made, err = c.Ingresses("default").Create(ctx, given, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return made.Spec.IngressClassName != nil
	})
	if *made.Spec.IngressClassName != "public" || made.Generation != 1 || len(made.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("created: %+v", made)
	}
	annotated := ingress("annotated")
	annotated.Annotations = map[string]string{"kubernetes.io/ingress.class": "other"}
	if annotated, err = c.Ingresses("default").Create(ctx, annotated, metav1.CreateOptions{}); err != nil || annotated.Spec.IngressClassName != nil {
		t.Errorf("annotated: %+v, %v", annotated, err)
	}
	made.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "1.2.3.4"}}
	made.Spec.IngressClassName = nil
	made, err = c.Ingresses("default").UpdateStatus(ctx, made, metav1.UpdateOptions{})
	if err != nil || made.Spec.IngressClassName == nil || len(made.Status.LoadBalancer.Ingress) != 1 || made.Generation != 1 {
		t.Errorf("status: %+v, %v", made, err)
	}
	apply := applynetworkingv1.Ingress(made.Name, "default").WithSpec(applynetworkingv1.IngressSpec().WithRules(applynetworkingv1.IngressRule().WithHost("a.example.com")))
	made, err = c.Ingresses("default").Apply(ctx, apply, metav1.ApplyOptions{FieldManager: "test"})
	if err != nil || len(made.Spec.Rules) != 1 || made.Spec.DefaultBackend == nil || made.Generation != 2 {
		t.Errorf("applied: %+v, %v", made, err)
	}
	if _, err := c.Ingresses("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.ingressClassName=public"}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "is not a known field selector") {
		t.Errorf("selected by the class: %v", err)
	}
	body, err := c.RESTClient().Get().Namespace("default").Resource("ingresses").Name(made.Name).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	if err != nil || !strings.Contains(string(body), `"public","a.example.com","1.2.3.4","80"`) {
		t.Errorf("table: %s, %v", body, err)
	}

	quotas := overTLS(t, s).CoreV1().ResourceQuotas("default")
	const count = "count/ingresses.networking.k8s.io"
	q, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{count: resource.MustParse("0")}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: q.Spec.Hard}
	if _, err = quotas.UpdateStatus(ctx, q, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		over := ingress("")
		over.GenerateName = "over-"
		_, err := c.Ingresses("default").Create(ctx, over, metav1.CreateOptions{})
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: q")
	})
}

// A network policy is defaulted and checked, and says which address it would
// rather have written otherwise.
func TestNetworkPolicies(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s).NetworkingV1().NetworkPolicies("default")
	policy := func(cidr string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: networkingv1.NetworkPolicySpec{
			Egress: []networkingv1.NetworkPolicyEgressRule{{
				Ports: []networkingv1.NetworkPolicyPort{{}}, To: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}},
			}},
		}}
	}
	if _, err := c.Create(ctx, policy("nope"), metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.egress[0].to[0].ipBlock.cidr") {
		t.Errorf("a range that is none: %v", err)
	}
	got, err := c.Create(ctx, policy("10.0.0.0/8"), metav1.CreateOptions{})
	if err != nil || len(got.Spec.PolicyTypes) != 2 || *got.Spec.Egress[0].Ports[0].Protocol != corev1.ProtocolTCP || got.Generation != 1 {
		t.Fatalf("created: %+v, %v", got, err)
	}
	got.Spec.PolicyTypes = got.Spec.PolicyTypes[1:]
	if got, err = c.Update(ctx, got, metav1.UpdateOptions{}); err != nil || got.Generation != 2 {
		t.Errorf("updated: %+v, %v", got, err)
	}
	if err := c.Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
