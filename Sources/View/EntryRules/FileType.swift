import BackingTree

/// swift-system has a type of the same name; in this module the name means the backing tree's type.
typealias FileType = BackingTree.FileType
