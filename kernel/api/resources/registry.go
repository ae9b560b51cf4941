package resources

import (
	"fmt"

	"pintle.dev/pintle/kernel/api/resources/ipalloc"
)

// Options configure the kinds.
type Options struct {
	// ServiceCIDR is the range of cluster IPs, like 10.96.0.0/16. Its first
	// address belongs to the kubernetes service. Required.
	ServiceCIDR string
	// NodePortRange is "first-last"; default 30000-32767.
	NodePortRange string
	// Addresses are the records of cluster IPs. Required before a service is made
	// that needs one.
	Addresses ipalloc.Addresses
	// Claims are shared by the kernels that hand out the same node ports; nil
	// for one alone.
	Claims ipalloc.Claims
}

// All lists the served kinds. It fails on options that cannot be read.
func All(opts Options) ([]Kind, error) {
	alloc, err := ipalloc.New(ipalloc.Config{CIDR: opts.ServiceCIDR, NodePorts: opts.NodePortRange, Addresses: opts.Addresses, Claims: opts.Claims})
	if err != nil {
		return nil, fmt.Errorf("resources: services: %w", err)
	}
	kinds := []Kind{
		podKind(),
		nodeKind(),
		serviceKind(alloc),
		endpointsKind(),
		endpointSliceKind(),
		namespaceKind(),
		eventKind(),
		persistentVolumeKind(),
		persistentVolumeClaimKind(),
		configMapKind(),
		secretKind(),
		serviceAccountKind(),
		limitRangeKind(),
		resourceQuotaKind(),
		podTemplateKind(),
		replicationControllerKind(),
		replicaSetKind(),
		deploymentKind(),
		controllerRevisionKind(),
		leaseKind(),
		priorityClassKind(),
		podDisruptionBudgetKind(),
		runtimeClassKind(),
		storageClassKind(),
		csiNodeKind(),
		csiDriverKind(),
		csiStorageCapacityKind(),
		volumeAttachmentKind(),
		volumeAttributesClassKind(),
		roleKind(),
		clusterRoleKind(),
		roleBindingKind(),
		clusterRoleBindingKind(),
		pluginKind(),
	}
	return kinds, nil
}
