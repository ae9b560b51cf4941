package guest

import (
	"strings"

	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A plugin that a profile configures apart has an instance for that profile in the
// guest of its bundle: another value of the plugin, over the same replica. Its
// name is the plugin's, instanceMark and the profile's schedulerName, which no
// plugin's name can be.
const instanceMark = "@"

func InstanceName(plugin, schedulerName string) string { return plugin + instanceMark + schedulerName }

// PluginOf is the plugin of an instance; of a plugin it is itself.
func PluginOf(name string) string {
	plugin, _, _ := strings.Cut(name, instanceMark)
	return plugin
}

// ProfileOf is the schedulerName of an instance's profile, or empty.
func ProfileOf(name string) string {
	_, profile, _ := strings.Cut(name, instanceMark)
	return profile
}

// InstanceOf describes an instance.
func InstanceOf(plugin *contractv1.PluginDescription, name string) *contractv1.PluginDescription {
	d := proto.CloneOf(plugin)
	d.Name, d.Instances = name, false
	return d
}
