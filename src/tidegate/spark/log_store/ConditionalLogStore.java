package tidegate;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;

/**
 * Delta's log in S3, each commit of which is put only if its version does not exist yet (If-None-Match).
 *
 * <p>Whether the store obeys is tried once for each table and JVM, before its first commit.
 */
public final class ConditionalLogStore extends HadoopFileSystemLogStore {
  private static final String TRIED = "_tidegate_conditional_put";
  private static final String IF_ABSENT = "fs.option.create.conditional.overwrite";
  private static final Set<Path> OBEYED = ConcurrentHashMap.newKeySet();

  public ConditionalLogStore(Configuration conf) {
    super(conf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    FileSystem files = path.getFileSystem(conf);
    byte[] content = bytes(actions);
    if (overwrite) {
      written(files.create(path, true), content);
      return;
    }
    needObedience(files, path.getParent());
    try {
      put(files, path, content);
    } catch (IOException refusedOrUnknown) {
      // No object is ever replaced, so the one that is there tells whose commit it is, also after a lost reply.
      if (!Arrays.equals(read(files, path, refusedOrUnknown), content)) {
        throw (IOException) new FileAlreadyExistsException(path.toString()).initCause(refusedOrUnknown);
      }
    }
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return false;
  }

  private static void needObedience(FileSystem files, Path log) throws IOException {
    if (OBEYED.contains(log)) {
      return;
    }
    for (int attempt = 0; attempt < 2; attempt++) {
      try {
        put(files, new Path(log, TRIED), new byte[0]);
      } catch (RemoteFileChangedException refused) {
        OBEYED.add(log);
        return;
      }
    }
    throw new IOException("The store of " + log + " overwrites an existing file although the request forbids it"
        + " (If-None-Match), so two writers would lose commits there");
  }

  private static void put(FileSystem files, Path path, byte[] content) throws IOException {
    FSDataOutputStreamBuilder<?, ?> created = files.createFile(path).create().recursive();
    created.must(IF_ABSENT, true);
    written(created.build(), content);
  }

  /** Not closed after a failure: to close a file in S3 is to put what was written of it. */
  private static void written(FSDataOutputStream out, byte[] content) throws IOException {
    try {
      out.write(content);
    } catch (IOException failed) {
      out.abort();
      throw failed;
    }
    out.close();
  }

  private static byte[] read(FileSystem files, Path path, IOException otherwise) throws IOException {
    try (FSDataInputStream in = files.open(path)) {
      return in.readAllBytes();
    } catch (FileNotFoundException nothing) {
      throw otherwise;
    }
  }

  private static byte[] bytes(Iterator<String> lines) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    while (lines.hasNext()) {
      out.write((lines.next() + "\n").getBytes(StandardCharsets.UTF_8));
    }
    return out.toByteArray();
  }
}
