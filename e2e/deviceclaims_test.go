package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const claimingPod = `
apiVersion: v1
kind: Pod
metadata: {name: NAME, annotations: {hollow.pintle.dev/run-for: FOR}}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  nodeSelector: {WHERE}
  resourceClaims: [{name: gpu, resourceClaimTemplateName: each}, {name: nic, resourceClaimTemplateName: each}, {name: mine, resourceClaimName: shared}]
  containers: [{name: c, image: simulated, resources: {claims: [{name: gpu}]}}]
`

const claimTemplate = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: each}
spec:
  metadata: {labels: {of: template}}
  spec: {devices: {requests: [{name: one, exactly: {deviceClassName: none}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec: {devices: {requests: [{name: one, exactly: {deviceClassName: none}}]}}
`

// claimsMade are the claims that a pod's status names.
func claimsMade(p *corev1.Pod) (names []string) {
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			names = append(names, *s.ResourceClaimName)
		}
	}
	return names
}

// awaitNoClaims waits until claims are gone.
func (e *env) awaitNoClaims(t *testing.T, ns string, names []string) {
	t.Helper()
	for _, name := range names {
		eventually(t, func(ctx context.Context) error {
			_, err := e.client.ResourceV1().ResourceClaims(ns).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(err, fmt.Errorf("claim %s is there", name))
		})
	}
}

// deviceClaimsFollow: a pod's claims are made of its templates as soon as they are there, are made again when they are
// lost, and go with the pod or when it has ended. A user's claim is taken back from pods that are gone.
func deviceClaimsFollow(t *testing.T, e *env) {
	ns := e.namespace(t)
	claims := e.client.ResourceV1().ResourceClaims(ns)
	waiting := strings.NewReplacer("NAME", "waiting", "FOR", "1s", "WHERE", "no: where").Replace(claimingPod)
	e.apply(t, ns, waiting)
	eventually(t, func(context.Context) error {
		told := e.kubectl(t, "-n", ns, "get", "events", "--field-selector=reason=FailedResourceClaimCreation", "-o", "jsonpath={.items[*].message}")
		if !strings.Contains(told, `PodResourceClaim gpu: resource claim template "each": resourceclaimtemplate.resource.k8s.io "each" not found`) {
			return fmt.Errorf("told %q", told)
		}
		return nil
	})
	e.apply(t, ns, claimTemplate)
	both := func(p *corev1.Pod) error {
		if n := len(claimsMade(p)); n != 2 {
			return fmt.Errorf("%d claims: %+v", n, p.Status.ResourceClaimStatuses)
		}
		return nil
	}
	pod := e.awaitPod(t, ns, "waiting", both)
	made := claimsMade(pod)
	for i, name := range made {
		c, err := claims.Get(bound(t), name, metav1.GetOptions{})
		entry := pod.Status.ResourceClaimStatuses[i].Name
		if err != nil || !metav1.IsControlledBy(c, pod) || c.Labels["of"] != "template" || c.Annotations[resourcev1.PodResourceClaimAnnotation] != entry || !strings.HasPrefix(name, "waiting-"+entry+"-") {
			t.Errorf("%+v, %v", c, err)
		}
	}
	// One is lost: it has a successor, and the other one stays.
	e.kubectl(t, "-n", ns, "delete", "resourceclaim", made[0])
	pod = e.awaitPod(t, ns, "waiting", func(p *corev1.Pod) error {
		if names := claimsMade(p); len(names) != 2 || names[0] == made[0] || names[1] != made[1] {
			return fmt.Errorf("claims %v, before %v", names, made)
		}
		return nil
	})
	// The user's claim is reserved, as a scheduler does it; without its user it is not allocated any more.
	shared, err := claims.Get(bound(t), "shared", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	shared.Finalizers = []string{resourcev1.Finalizer}
	if shared, err = claims.Update(bound(t), shared, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	shared.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "one", Driver: "gpu.example.com", Pool: "pool", Device: "d"}}}}
	shared.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	if _, err = claims.UpdateStatus(bound(t), shared, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	made = claimsMade(pod)
	e.kubectl(t, "-n", ns, "delete", "pod", "waiting")
	e.awaitNoClaims(t, ns, made)
	eventually(t, func(ctx context.Context) error {
		c, err := claims.Get(ctx, "shared", metav1.GetOptions{})
		if err == nil && (c.Status.Allocation != nil || len(c.Status.ReservedFor) > 0 || len(c.Finalizers) > 0) {
			err = fmt.Errorf("finalizers %v, status %+v", c.Finalizers, c.Status)
		}
		return err
	})
	// The claims of a pod that ended go, though the pod stays; and none comes again.
	e.apply(t, ns, strings.NewReplacer("NAME", "ending", "FOR", "1s", "WHERE", "").Replace(claimingPod))
	e.awaitPod(t, ns, "ending", both)
	pod = e.awaitPod(t, ns, "ending", func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("phase %s", p.Status.Phase)
		}
		return nil
	})
	e.awaitNoClaims(t, ns, claimsMade(pod))
	// The controller has looked at the ended pod once more when it has made the claims of a pod that came after.
	e.kubectl(t, "-n", ns, "annotate", "pod", "ending", "looked=at")
	e.apply(t, ns, strings.NewReplacer("NAME", "later", "FOR", "1s", "WHERE", "no: where").Replace(claimingPod))
	want := append(claimsMade(e.awaitPod(t, ns, "later", both)), "shared")
	list, err := claims.List(bound(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, c := range list.Items {
		have = append(have, c.Name)
	}
	slices.Sort(want)
	if slices.Sort(have); !slices.Equal(have, want) {
		t.Errorf("claims %v, want %v", have, want)
	}
}

const taintedSlice = `
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: of-taints}
spec:
  driver: taints.example.com
  pool: {name: pool, generation: 1, resourceSliceCount: 1}
  allNodes: true
  devices:
  - {name: good}
  - {name: bad, taints: [{key: broken, effect: EFFECT}]}
`

// deviceTaintsEnd: a pod whose device gets a NoExecute taint goes; those stay whose device has none, or whose claim
// tolerates it.
func deviceTaintsEnd(t *testing.T, e *env) {
	ns := e.namespace(t)
	t.Cleanup(func() { e.try(t, "delete", "resourceslice", "of-taints") })
	e.apply(t, ns, strings.Replace(taintedSlice, "EFFECT", "NoSchedule", 1))
	pods := map[string]resourcev1.DeviceRequestAllocationResult{
		"bad": {Device: "bad"}, "good": {Device: "good"},
		"tolerant": {Device: "bad", Tolerations: []resourcev1.DeviceToleration{{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoExecute}}},
	}
	for name, result := range pods {
		e.apply(t, ns, fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %[1]s, finalizers: [resource.kubernetes.io/delete-protection]}
spec: {devices: {requests: [{name: one, exactly: {deviceClassName: none}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  automountServiceAccountToken: false
  resourceClaims: [{name: one, resourceClaimName: %[1]s}]
  containers: [{name: c, image: simulated, resources: {claims: [{name: one}]}}]
`, name))
		pod := e.awaitPod(t, ns, name, hasPhase(corev1.PodRunning))
		claim, err := e.client.ResourceV1().ResourceClaims(ns).Get(bound(t), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		result.Request, result.Driver, result.Pool = "one", "taints.example.com", "pool"
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{result}}}
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
		if _, err := e.client.ResourceV1().ResourceClaims(ns).UpdateStatus(bound(t), claim, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	e.apply(t, ns, strings.Replace(taintedSlice, "EFFECT", "NoExecute", 1))
	eventually(t, func(ctx context.Context) error {
		_, err := e.client.CoreV1().Pods(ns).Get(ctx, "bad", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("the pod of the bad device is there"))
	})
	for _, name := range []string{"good", "tolerant"} {
		if p, err := e.client.CoreV1().Pods(ns).Get(bound(t), name, metav1.GetOptions{}); err != nil || p.DeletionTimestamp != nil {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	eventually(t, func(context.Context) error {
		told := e.kubectl(t, "-n", ns, "get", "events", "--field-selector=reason=DeviceTaintManagerEviction", "-o", "jsonpath={.items[*].involvedObject.name}: {.items[*].message}")
		if told != "bad: Marking for deletion" {
			return fmt.Errorf("told %q", told)
		}
		return nil
	})
}
