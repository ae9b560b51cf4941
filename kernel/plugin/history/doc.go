// Package history remembers which versions of plugin bundles were in force together, with
// the configurations and permissions of the plugins. A rollback restores one of these
// revisions as a whole.
//
// # What it owns
//
// A History is a list of revisions per bundle, the last one first. The plugin host adds a
// revision when a bundle switches to another build. It writes each plugin's part into
// status.previous of its Plugin object, and reads it from there at the next start. So the
// objects are the only storage.
//
// # What it promises
//
// It is bounded: by the number of revisions, and by the bytes that a plugin's object holds
// of them. If a part of a revision does not fit, the whole revision is forgotten. Numbers
// rise, and are not used twice while the objects exist.
//
// It is pure data: it imports API types, and nothing of the host. Its methods are not
// safe for concurrent use; the host holds its lock.
package history
