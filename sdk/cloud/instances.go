package cloud

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// secondInstances guards instances of the newer interface.
type secondInstances struct {
	*guard
	of cloudprovider.InstancesV2
}

// InstanceExists implements cloudprovider.InstancesV2, as do the others. A node whose
// provider does not answer exists: an error deletes no node.
func (i secondInstances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	return call(ctx, i.guard, "InstanceExists", "node "+node.Name, func(ctx context.Context) (bool, error) { return i.of.InstanceExists(ctx, node) })
}

// InstanceShutdown tells of instances that are shut down.
func (i secondInstances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	return call(ctx, i.guard, "InstanceShutdown", "node "+node.Name, func(ctx context.Context) (bool, error) { return i.of.InstanceShutdown(ctx, node) })
}

// InstanceMetadata is what a provider knows of a node.
func (i secondInstances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return call(ctx, i.guard, "InstanceMetadata", "node "+node.Name, func(ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
		return i.of.InstanceMetadata(ctx, node)
	})
}

// instances guards instances of the older interface.
type instances struct {
	*guard
	of cloudprovider.Instances
}

// NodeAddresses implements cloudprovider.Instances, as do the others.
func (i instances) NodeAddresses(ctx context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	return call(ctx, i.guard, "NodeAddresses", "node "+string(name), func(ctx context.Context) ([]corev1.NodeAddress, error) { return i.of.NodeAddresses(ctx, name) })
}

// NodeAddressesByProviderID are the addresses of an instance.
func (i instances) NodeAddressesByProviderID(ctx context.Context, id string) ([]corev1.NodeAddress, error) {
	return call(ctx, i.guard, "NodeAddressesByProviderID", "instance "+id, func(ctx context.Context) ([]corev1.NodeAddress, error) {
		return i.of.NodeAddressesByProviderID(ctx, id)
	})
}

// InstanceID is the provider's id of a node.
func (i instances) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	return call(ctx, i.guard, "InstanceID", "node "+string(name), func(ctx context.Context) (string, error) { return i.of.InstanceID(ctx, name) })
}

// InstanceType is the type of a node.
func (i instances) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	return call(ctx, i.guard, "InstanceType", "node "+string(name), func(ctx context.Context) (string, error) { return i.of.InstanceType(ctx, name) })
}

// InstanceTypeByProviderID is the type of an instance.
func (i instances) InstanceTypeByProviderID(ctx context.Context, id string) (string, error) {
	return call(ctx, i.guard, "InstanceTypeByProviderID", "instance "+id, func(ctx context.Context) (string, error) { return i.of.InstanceTypeByProviderID(ctx, id) })
}

// AddSSHKeyToAllInstances is called by no controller.
func (i instances) AddSSHKeyToAllInstances(context.Context, string, []byte) error {
	return cloudprovider.NotImplemented
}

// CurrentNodeName is called by no controller.
func (i instances) CurrentNodeName(context.Context, string) (types.NodeName, error) {
	return "", cloudprovider.NotImplemented
}

// InstanceExistsByProviderID tells whether an instance is there.
func (i instances) InstanceExistsByProviderID(ctx context.Context, id string) (bool, error) {
	return call(ctx, i.guard, "InstanceExistsByProviderID", "instance "+id, func(ctx context.Context) (bool, error) { return i.of.InstanceExistsByProviderID(ctx, id) })
}

// InstanceShutdownByProviderID tells of instances that are shut down.
func (i instances) InstanceShutdownByProviderID(ctx context.Context, id string) (bool, error) {
	return call(ctx, i.guard, "InstanceShutdownByProviderID", "instance "+id, func(ctx context.Context) (bool, error) { return i.of.InstanceShutdownByProviderID(ctx, id) })
}
