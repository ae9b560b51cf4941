package api_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api"
)

func deviceClaim(name string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"},
		}}}}}
}

func deviceSlice(name, node string) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}, NodeName: &node,
		Devices: []resourcev1.Device{{Name: "d", Taints: []resourcev1.DeviceTaint{{Key: "a", Effect: resourcev1.DeviceTaintEffectNone}}}},
	}}
}

func actingAs(s *api.Server, name string, extra map[string][]string, groups ...string) *kubernetes.Clientset {
	return kubernetes.NewForConfigOrDie(s.ClientConfig(&user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated), Extra: extra}))
}

// Devices can be told of and asked for: classes, claims and slices are defaulted,
// checked and found by their fields.
func TestDeviceKinds(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s).ResourceV1()
	class, err := c.DeviceClasses().Create(ctx, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}},
	}}, metav1.CreateOptions{})
	if err != nil || class.Generation != 1 {
		t.Fatalf("%+v, %v", class, err)
	}
	class.Spec.Selectors[0].CEL.Expression = "device.nope"
	if _, err := c.DeviceClasses().Update(ctx, class, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "undefined field 'nope'") {
		t.Errorf("an expression of nothing: %v", err)
	}
	claim := deviceClaim("c")
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}
	if claim, err = c.ResourceClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil || claim.Spec.Devices.Requests[0].Exactly.Count != 1 || len(claim.Status.ReservedFor) != 0 {
		t.Errorf("%+v, %v", claim, err)
	}
	claim.Spec.Devices.Requests[0].Exactly.Count = 2
	if _, err := c.ResourceClaims("default").Update(ctx, claim, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "field is immutable") {
		t.Errorf("another request: %v", err)
	}
	for _, node := range []string{"n1", "n2"} {
		made, err := c.ResourceSlices().Create(ctx, deviceSlice("s-"+node, node), metav1.CreateOptions{})
		if err != nil || made.Spec.Devices[0].Taints[0].TimeAdded == nil {
			t.Fatalf("%+v, %v", made, err)
		}
	}
	for selector, want := range map[string]int{"spec.nodeName=n1": 1, "spec.driver=gpu.example.com": 2, "spec.driver=gpu.example.com,spec.nodeName=n2": 1, "spec.nodeName=": 0} {
		list, err := c.ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil || len(list.Items) != want {
			t.Errorf("%s: %v, %v", selector, list, err)
		}
	}
	if _, err := c.ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.pool.name=n1"}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.pool.name") {
		t.Errorf("selected by the pool: %v", err)
	}
	body, err := c.RESTClient().Get().Namespace("default").Resource("resourceclaims").Name("c").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	if err != nil || !strings.Contains(string(body), `"c","pending"`) {
		t.Errorf("table: %s, %v", body, err)
	}
	// What came with Kubernetes 1.37 is dropped.
	patch := []byte(`{"spec":{"partitionTypeAttribute":"gpu.example.com/x"}}`)
	if slice, err := c.ResourceSlices().Patch(ctx, "s-n1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil || slice.Spec.PartitionTypeAttribute != nil {
		t.Errorf("%+v, %v", slice, err)
	}
}

// Access for administrators needs a label of the namespace: for claims, templates
// and what is allocated.
func TestDeviceAdminAccess(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	all := overTLS(t, s)
	c := all.ResourceV1()
	claim := deviceClaim("admin")
	claim.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "admin"}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claim.Spec}}
	refused := func(err error) {
		t.Helper()
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace") {
			t.Errorf("without the label: %v", err)
		}
	}
	_, err := c.ResourceClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	refused(err)
	_, err = c.ResourceClaimTemplates("default").Create(ctx, template, metav1.CreateOptions{})
	refused(err)
	plain, err := c.ResourceClaims("default").Create(ctx, deviceClaim("plain"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	plain.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "one", Driver: "gpu.example.com", Pool: "p", Device: "d", AdminAccess: ptr.To(true)}}}}
	_, err = c.ResourceClaims("default").UpdateStatus(ctx, plain, metav1.UpdateOptions{})
	refused(err)
	patch := []byte(`{"metadata":{"labels":{"resource.kubernetes.io/admin-access":"true"}}}`)
	if _, err := all.CoreV1().Namespaces().Patch(ctx, "default", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ResourceClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := c.ResourceClaimTemplates("default").Create(ctx, template, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := c.ResourceClaims("default").UpdateStatus(ctx, plain, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
}

// Who may write the status of claims may not for that allocate devices, nor speak
// for each driver.
func TestDeviceStatusRights(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	admin := overTLS(t, s)
	allow := func(who string, rules ...rbacv1.PolicyRule) {
		t.Helper()
		if _, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: who}, Rules: rules}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: who},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: who}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: who}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rule := func(resource string, names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{resourcev1.GroupName}, Resources: []string{resource}, Verbs: verbs, ResourceNames: names}
	}
	status := rule("resourceclaims/status", nil, "update")
	const driver = "system:serviceaccount:default:driver"
	allow("writer", status)
	allow("binder", status, rule("resourceclaims/binding", nil, "update"))
	allow(driver, status, rule("resourceclaims/driver", []string{"gpu.example.com"}, "associated-node:update"))
	allow("central", status, rule("resourceclaims/driver", []string{"gpu.example.com"}, "arbitrary-node:update"))
	claim, err := admin.ResourceV1().ResourceClaims("default").Create(ctx, deviceClaim("c"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// write is done as soon as the rights have come to authorization.
	write := func(c *kubernetes.Clientset, want string, change func(*resourcev1.ResourceClaimStatus)) {
		t.Helper()
		waitFor(t, func() bool {
			next := claim.DeepCopy()
			change(&next.Status)
			got, err := c.ResourceV1().ResourceClaims("default").UpdateStatus(ctx, next, metav1.UpdateOptions{})
			if apierrors.IsForbidden(err) { // the status itself
				return false
			}
			if want == "" && err == nil {
				claim = got
			} else if want == "" || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			return true
		})
	}
	allocate := func(s *resourcev1.ResourceClaimStatus) {
		s.Allocation = &resourcev1.AllocationResult{
			Devices:      resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "one", Driver: "gpu.example.com", Pool: "p", Device: "d"}, {Request: "one", Driver: "other.example.com", Pool: "p", Device: "d"}}},
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}}},
		}
	}
	tell := func(driver string) func(*resourcev1.ResourceClaimStatus) {
		return func(s *resourcev1.ResourceClaimStatus) {
			s.Devices = slices.DeleteFunc(s.Devices, func(d resourcev1.AllocatedDeviceStatus) bool { return d.Driver == driver })
			s.Devices = append(s.Devices, resourcev1.AllocatedDeviceStatus{Driver: driver, Pool: "p", Device: "d", NetworkData: &resourcev1.NetworkDeviceData{InterfaceName: "i" + claim.ResourceVersion}})
		}
	}
	const needsBinding, needsDriver = `requires resource="resourceclaims/binding", verb="update" permission`, `requires resource="resourceclaims/driver"`
	writer, binder := actingAs(s, "writer", nil), actingAs(s, "binder", nil)
	write(writer, needsBinding, allocate)
	write(binder, "", allocate)
	write(writer, needsBinding, func(s *resourcev1.ResourceClaimStatus) {
		s.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}
	})
	write(writer, needsBinding, func(s *resourcev1.ResourceClaimStatus) { s.Allocation = nil })
	write(writer, needsDriver, tell("gpu.example.com"))
	write(binder, needsDriver, tell("gpu.example.com"))
	node := func(names ...string) map[string][]string {
		return map[string][]string{"authentication.kubernetes.io/node-name": names}
	}
	write(actingAs(s, driver, node("n1")), "", tell("gpu.example.com"))
	write(actingAs(s, driver, node("n1")), needsDriver, tell("other.example.com"))
	write(actingAs(s, driver, node("n2")), needsDriver, tell("gpu.example.com"))
	write(actingAs(s, driver, node("n1", "n2")), needsDriver, tell("gpu.example.com"))
	write(actingAs(s, driver, nil), needsDriver, tell("gpu.example.com"))
	write(actingAs(s, "central", nil), "", tell("gpu.example.com"))
	write(actingAs(s, "central", nil), needsDriver, func(s *resourcev1.ResourceClaimStatus) { tell("gpu.example.com")(s); tell("other.example.com")(s) })
	// What was said of devices goes with the allocation.
	write(binder, "", func(s *resourcev1.ResourceClaimStatus) { s.Allocation = nil })
	if len(claim.Status.Devices) != 0 {
		t.Errorf("%+v", claim.Status)
	}
}

// A node has slices of its own devices alone.
func TestDeviceSlicesOfNodes(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	if _, err := overTLS(t, s).ResourceV1().ResourceSlices().Create(ctx, deviceSlice("of-n2", "n2"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := overTLS(t, s).ResourceV1().ResourceSlices().Create(ctx, deviceSlice("of-n1", "n1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n1 := actingAs(s, "system:node:n1", nil, user.NodesGroup).ResourceV1().ResourceSlices()
	if err := n1.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("all: %v", err)
	}
	if err := n1.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.nodeName=n2"}); !apierrors.IsForbidden(err) {
		t.Errorf("another's: %v", err)
	}
	if err := n1.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.nodeName=n1"}); err != nil {
		t.Errorf("its own: %v", err)
	}
	list, err := overTLS(t, s).ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "of-n2" {
		t.Errorf("%v, %v", list, err)
	}
}

// A quota counts claims and the devices of a class that they ask for.
func TestDeviceQuota(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	quotas := c.CoreV1().ResourceQuotas("default")
	const devices = "gpu.deviceclass.resource.k8s.io/devices"
	q, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{devices: resource.MustParse("3")}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: corev1.ResourceList{devices: resource.MustParse("0")}}
	if _, err = quotas.UpdateStatus(ctx, q, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { // the quota is known to admission a moment later
		over := deviceClaim("over")
		over.Spec.Devices.Requests[0].Exactly.Count = 4
		_, err := c.ResourceV1().ResourceClaims("default").Create(ctx, over, metav1.CreateOptions{DryRun: []string{"All"}})
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: q, requested: "+devices+"=4, used: "+devices+"=0, limited: "+devices+"=3")
	})
	within := deviceClaim("within")
	within.Spec.Devices.Requests[0].Exactly.Count = 3
	if _, err := c.ResourceV1().ResourceClaims("default").Create(ctx, within, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := c.ResourceV1().ResourceClaims("default").Create(ctx, deviceClaim("more"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("one more: %v", err)
	}
}
