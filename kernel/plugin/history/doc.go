// Package history remembers what of plugin bundles was in force together: the
// version, and the configurations and permissions of the plugins. A rollback goes
// back to one of these revisions as a whole.
//
// # What it owns
//
// A History is a list of revisions a bundle, the last one first. The plugin host adds
// one when a bundle turns to another build, writes each plugin's part into
// status.previous of its Plugin object, and reads it from there at the next start:
// the objects are where it is kept.
//
// # What it promises
//
// It is bounded: by the number of revisions, and by the bytes of what a plugin's
// object holds of them. A revision of which a part does not fit is forgotten as a
// whole. Numbers rise and are not used twice while the objects stay.
//
// It is pure data: it imports API types, and nothing of the host. Its methods are not
// safe for concurrent use; the host holds its lock.
package history
