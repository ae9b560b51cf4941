package resources

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// row turns a typed printing function into a Kind's Row.
func row[T runtime.Object](cells func(T) []any) func(runtime.Object) ([]any, error) {
	return func(obj runtime.Object) ([]any, error) {
		o, ok := obj.(T)
		if !ok {
			var want T
			return nil, fmt.Errorf("print %T: got %T", want, obj)
		}
		return cells(o), nil
	}
}

func nodeColumns() []metav1.TableColumnDefinition {
	info, status := corev1.NodeSystemInfo{}.SwaggerDoc(), corev1.NodeStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Status", "string", "", "The status of the node", 0),
		column("Roles", "string", "", "The roles of the node", 0),
		ageColumn(),
		column("Version", "string", "", info["kubeletVersion"], 0),
		column("Internal-IP", "string", "", status["addresses"], 1),
		column("External-IP", "string", "", status["addresses"], 1),
		column("OS-Image", "string", "", info["osImage"], 1),
		column("Kernel-Version", "string", "", info["kernelVersion"], 1),
		column("Container-Runtime", "string", "", info["containerRuntimeVersion"], 1),
	}
}

func nodeCells(n *corev1.Node) []any {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		status = "NotReady"
		if c.Status == corev1.ConditionTrue {
			status = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	info := n.Status.NodeInfo
	kernel := orUnknown(info.KernelVersion)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		n.Name, status, orNone(strings.Join(nodeRoles(n), ",")), ageCell(n.CreationTimestamp), info.KubeletVersion,
		nodeAddress(n, corev1.NodeInternalIP), nodeAddress(n, corev1.NodeExternalIP),
		orUnknown(info.OSImage), kernel, orUnknown(info.ContainerRuntimeVersion),
	}
}

func nodeRoles(n *corev1.Node) []string {
	var roles []string
	for k, v := range n.Labels {
		if role, ok := strings.CutPrefix(k, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if k == "kubernetes.io/role" && v != "" {
			roles = append(roles, v)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

func nodeAddress(n *corev1.Node, t corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == t {
			return a.Address
		}
	}
	return "<none>"
}

func serviceColumns() []metav1.TableColumnDefinition {
	spec := corev1.ServiceSpec{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Type", "string", "", spec["type"], 0),
		column("Cluster-IP", "string", "", spec["clusterIP"], 0),
		column("External-IP", "string", "", spec["externalIPs"], 0),
		column("Port(s)", "string", "", spec["ports"], 0),
		ageColumn(),
		column("Selector", "string", "", spec["selector"], 1),
	}
}

func serviceCells(s *corev1.Service) []any {
	ip := "<none>"
	if len(s.Spec.ClusterIPs) > 0 {
		ip = s.Spec.ClusterIPs[0]
	}
	ports := make([]string, len(s.Spec.Ports))
	for i, p := range s.Spec.Ports {
		if p.NodePort > 0 {
			ports[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		} else {
			ports[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		}
	}
	return []any{
		s.Name, string(s.Spec.Type), ip, externalIP(s), orNone(strings.Join(ports, ",")), ageCell(s.CreationTimestamp),
		labels.FormatLabels(s.Spec.Selector),
	}
}

func externalIP(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return orNone(strings.Join(s.Spec.ExternalIPs, ","))
	case corev1.ServiceTypeLoadBalancer:
		var ips []string
		for _, in := range s.Status.LoadBalancer.Ingress {
			if in.IP != "" {
				ips = append(ips, in.IP)
			} else if in.Hostname != "" {
				ips = append(ips, in.Hostname)
			}
		}
		slices.Sort(ips)
		ips = append(slices.Compact(ips), s.Spec.ExternalIPs...)
		if len(ips) == 0 {
			return "<pending>"
		}
		return strings.Join(ips, ",")
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	}
	return "<unknown>"
}

func endpointsColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Endpoints", "string", "", corev1.Endpoints{}.SwaggerDoc()["subsets"], 0),
		ageColumn(),
	}
}

func endpointsCells(e *corev1.Endpoints) []any {
	if len(e.Subsets) == 0 {
		return []any{e.Name, "<none>", ageCell(e.CreationTimestamp)}
	}
	var all []string
	for _, s := range e.Subsets {
		for _, a := range s.Addresses {
			if len(s.Ports) == 0 {
				all = append(all, a.IP)
			}
		}
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				all = append(all, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
	}
	return []any{e.Name, firstThree(all), ageCell(e.CreationTimestamp)}
}

// firstThree joins at most three and counts the rest.
func firstThree(all []string) string {
	if len(all) <= 3 {
		return strings.Join(all, ",")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(all[:3], ","), len(all)-3)
}

func endpointSliceColumns() []metav1.TableColumnDefinition {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("AddressType", "string", "", doc["addressType"], 0),
		column("Ports", "string", "", doc["ports"], 0),
		column("Endpoints", "string", "", doc["endpoints"], 0),
		ageColumn(),
	}
}

func endpointSliceCells(e *discoveryv1.EndpointSlice) []any {
	var ports, addresses []string
	for _, p := range e.Ports {
		switch {
		case p.Port != nil:
			ports = append(ports, strconv.Itoa(int(*p.Port)))
		case p.Name != nil:
			ports = append(ports, *p.Name)
		default:
			ports = append(ports, "*")
		}
	}
	for _, ep := range e.Endpoints {
		addresses = append(addresses, ep.Addresses...)
	}
	return []any{e.Name, string(e.AddressType), orUnset(firstThree(ports)), orUnset(firstThree(addresses)), ageCell(e.CreationTimestamp)}
}

func namespaceColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{nameColumn(), column("Status", "string", "", "The status of the namespace", 0), ageColumn()}
}

func namespaceCells(n *corev1.Namespace) []any {
	return []any{n.Name, string(n.Status.Phase), ageCell(n.CreationTimestamp)}
}

func eventColumns() []metav1.TableColumnDefinition {
	doc := corev1.Event{}.SwaggerDoc()
	name := nameColumn()
	name.Priority = 1
	return []metav1.TableColumnDefinition{
		column("Last Seen", "string", "", doc["lastTimestamp"], 0),
		column("Type", "string", "", doc["type"], 0),
		column("Reason", "string", "", doc["reason"], 0),
		column("Object", "string", "", doc["involvedObject"], 0),
		column("Subobject", "string", "", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"], 1),
		column("Source", "string", "", doc["source"], 1),
		column("Message", "string", "", doc["message"], 0),
		column("First Seen", "string", "", doc["firstTimestamp"], 1),
		column("Count", "string", "", doc["count"], 1),
		name,
	}
}

func eventCells(e *corev1.Event) []any {
	first := ageCell(e.FirstTimestamp)
	if e.FirstTimestamp.IsZero() {
		first = ageCell(metav1.Time(e.EventTime))
	}
	last := ageCell(e.LastTimestamp)
	if e.LastTimestamp.IsZero() {
		last = first
	}
	count := e.Count
	if e.Series != nil {
		last, count = ageCell(metav1.Time(e.Series.LastObservedTime)), e.Series.Count
	} else if count == 0 {
		count = 1
	}
	target := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		target += "/" + e.InvolvedObject.Name
	}
	source, host := e.Source.Component, e.Source.Host
	orElse(&source, e.ReportingController)
	orElse(&host, e.ReportingInstance)
	if host != "" {
		source += ", " + host
	}
	return []any{
		last, e.Type, e.Reason, target, e.InvolvedObject.FieldPath, source,
		strings.TrimSpace(e.Message), first, int64(count), e.Name,
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "<unknown>"
	}
	return s
}

func orUnset(s string) string {
	if s == "" {
		return "<unset>"
	}
	return s
}
